/** `onceway token`: draws a token for an operator, and prints the line with its hash for the tokens file. */
import { randomBytes } from 'node:crypto'
import { hashOf, tokenLine, wrongTokenName } from '../config/operator-tokens.ts'
import { didYouMean } from '../config/read/nearest.ts'
import { ROLES } from '../core/operator/roles.ts'
import { StartError } from '../ports/errors.ts'
import { readOptions, requiredOption } from './command.ts'
import type { Command, Terminal } from './command.ts'

/** Nobody guesses one of 2^256, so a plain hash of it may be in a file. */
const TOKEN_BYTES = 32
/** Scanners of repositories find a leaked token by it. */
const PREFIX = 'ow_'

export const token: Command = {
  help: `usage: onceway token NAME --role ROLE

Makes a random token for the operator API and the console. Prints the token, which is stored nowhere, and then the line for
the tokens file (admin.auth.tokensFile). The file has only the hash. NAME appears in the audit.

  NAME         letters, digits and . _ @ -, 128 at most. Not admin.token, probe or loopback
  --role ROLE  viewer: records and messages without answers. reader: also stored answers. operator: also changes.
               admin: also deletes of many records

examples:
  onceway token ann@example.com --role operator
  onceway token deploy-bot --role viewer`,
  run: (args, terminal) => Promise.resolve(makeToken(args, terminal))
}

function makeToken (args: readonly string[], { out }: Terminal): number {
  const options = readOptions(args, { role: { type: 'string' } }, 1)
  const [name] = options.positionals
  if (name === undefined) throw new StartError('Name the operator: onceway token NAME --role ROLE.', 2)
  const wrong = wrongTokenName(name)
  if (wrong !== null) throw new StartError(`This name cannot be used: ${wrong}.`, 2)
  const wanted = requiredOption(options, 'role')
  const role = ROLES.find((each) => each === wanted)
  if (role === undefined) throw new StartError(`--role must be one of ${ROLES.join(', ')}${didYouMean(wanted, ROLES) || '.'}`, 2)
  const secret = `${PREFIX}${randomBytes(TOKEN_BYTES).toString('base64url')}`
  out(secret)
  out(tokenLine({ name, role, hash: hashOf(secret) }))
  return 0
}
