/** One process on its store: whatever it claims and accepts stands in one line there, and nobody differs. */
import type { Registry } from '../../ports/registry.ts'

export const NO_REGISTRY: Registry = {
  name: 'none',
  register: async () => {},
  registered: async () => true,
  differing: async () => [],
  withdraw: async () => {}
}
