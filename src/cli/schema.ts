/** `onceway schema`: prints the JSON Schema of this version's configuration. */
import { schemaText } from '../config/reference.ts'
import { readOptions } from './command.ts'
import type { Command } from './command.ts'

export const schema: Command = {
  help: `usage: onceway schema

Prints the JSON Schema of this version's configuration file, for editors and CI.

example:
  onceway schema > onceway.schema.json     # then, on the first line of onceway.yaml:
                                           # yaml-language-server: $schema=./onceway.schema.json`,
  run: (args, { out }) => {
    readOptions(args, {})
    out(schemaText().trimEnd())
    return Promise.resolve(0)
  }
}
