/** `onceway version`: prints the version. */
import { VERSION } from '../version.ts'
import type { Command } from './command.ts'
import { readOptions } from './command.ts'

export const version: Command = {
  help: `usage: onceway version

Prints the version.

example:
  onceway version`,
  run: (args, { out }) => {
    readOptions(args, {})
    out(VERSION)
    return Promise.resolve(0)
  }
}
