/** The registry of a store with one process. Its claims and acceptances are serial, and no gateway differs. */
import type { Registry } from '../../ports/registry.ts'

export const NO_REGISTRY: Registry = {
  name: 'none',
  register: async () => {},
  registered: async () => true,
  differing: async () => [],
  withdraw: async () => {}
}
