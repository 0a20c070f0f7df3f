/** `onceway ids`: shows the scheme of record ids (core/record/schemes.ts), and switches to the newest one. */
import { randomBytes } from 'node:crypto'
import type { Config } from '../config/config.ts'
import { LIVES_MS } from '../core/protocol/aspects.ts'
import type { SchemeReport, SchemeRows, SwitchOrder, SwitchResult } from '../core/record/scheme-switch.ts'
import { keysOf, newestSchemeName, NEWEST_RULES, schemeNames, SECRET_BYTES_MIN } from '../core/record/schemes.ts'
import { StartError } from '../ports/errors.ts'
import { migrate } from '../store/postgres/migrate.ts'
import { withPostgres } from '../store/postgres/open.ts'
import { reportSchemesOf, switchSchemeOf } from '../store/postgres/scheme-switch.ts'
import { reportSchemesIn, switchSchemeIn } from '../store/sqlite/schemes.ts'
import { makeSecret, readSecret, secretFile } from '../store/sqlite/secret.ts'
import { CONFIG_OPTIONS, configFor, refuseOtherOptions, readOptions, refuseSubcommand, whoAndWhy } from './command.ts'
import type { Command, Options, Terminal } from './command.ts'
import { secretsOf } from '../process/operator-stores.ts'
import { timeText } from './record-text.ts'
import { counted } from './table.ts'

const OPTIONS = {
  ...CONFIG_OPTIONS,
  yes: { type: 'boolean' },
  'secret-lost': { type: 'boolean' },
  without: { type: 'string', multiple: true },
  who: { type: 'string' },
  why: { type: 'string' }
} as const

export const ids: Command = {
  help: `usage: onceway ids [show] [--config FILE] [--data-dir DIR]
       onceway ids upgrade [--yes] [--secret-lost] [--without INSTANCE] [--who NAME] --why TEXT [--config FILE] [--data-dir DIR]

Shows the scheme of record ids, or switches to the newest one. A scheme is a version of the rules for what makes two requests
the same, and the secret of the ids. The database names the scheme, and every gateway follows it.

\`upgrade\` switches to the newest rules and the file's secret, while gateways run. All gateways must already have the newest
release and the same secret. If the secret changes, they also need the old one as previousSecret. Existing records keep their
ids and are still found. There is no further switch until none of them is left. If the store is the embedded one, stop its
gateway first. Without --yes the command only shows what it would do.

  --yes                do it
  --secret-lost        the secret of the current scheme is lost (after a switch: of the previous scheme). Its records cannot be
                       found any more. A retry of one of them is not executed, and gets an unknown outcome
  --without INSTANCE   do not wait for this gateway: it is gone for good, though it was seen within the hour (repeatable)
  --who NAME           name for the audit row (default: the user of this system)
  --why TEXT           reason for the audit row
  --config FILE        the gateway's file                   --data-dir DIR   directory of its embedded store

examples:
  onceway ids --config onceway.yaml
  onceway ids upgrade --config onceway.yaml --why 'release 2 is everywhere'
  onceway ids upgrade --config onceway.yaml --why 'release 2 is everywhere' --yes`,
  run: runIds
}

async function runIds (args: readonly string[], terminal: Terminal): Promise<number> {
  const options = readOptions(args, OPTIONS, 1)
  const [name = 'show'] = options.positionals
  if (name !== 'show' && name !== 'upgrade') return refuseSubcommand(name, ['show', 'upgrade'])
  if (name === 'show') refuseOtherOptions(options, [], 'ids show')
  const config = configFor(options, terminal.env)
  return name === 'upgrade' ? upgrade(config, options, terminal) : show(config, terminal)
}

// ---------------------------------------------------------------- upgrade

async function upgrade (config: Config, options: Options, terminal: Terminal): Promise<number> {
  const order = {
    ...whoAndWhy(options),
    isLost: options.values['secret-lost'] === true,
    dryRun: options.values.yes !== true,
    without: listOf(options.values.without)
  }
  const { stores: { postgres }, dataDir } = config
  const newSecretFile = postgres === null && secretsOf(config).length === 0 ? secretFile(dataDir) : null
  return printResult(await switchScheme(config, order), { ...order, newSecretFile }, terminal)
}

function listOf (value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : []
}

type Order = Omit<SwitchOrder, 'name'>

async function switchScheme (config: Config, order: Order): Promise<SwitchResult> {
  const { stores: { postgres }, dataDir } = config
  if (postgres === null) {
    const secrets = secretsOf(config)
    // A refused switch must not leave a secret behind, so the dry run uses one that is thrown away.
    const candidates = secrets.length > 0 ? secrets : [randomBytes(SECRET_BYTES_MIN)]
    refuseIfSecretMissing(reportSchemesIn(dataDir), candidates, order)
    const result = switchSchemeIn(dataDir, { ...order, name: newestSchemeName(candidates), dryRun: true })
    if (order.dryRun || (result.kind !== 'switched' && result.kind !== 'lost')) return result
    return switchSchemeIn(dataDir, { ...order, name: newestSchemeName(secrets.length > 0 ? secrets : [makeSecret(dataDir)]) })
  }
  return withPostgres(postgres, async (client) => {
    // A refused switch or a dry run must not migrate. A gateway of this release has done that already.
    await migrate(client, { schema: postgres.schema, mode: 'check' })
    refuseIfSecretMissing(await reportSchemesOf(client, postgres.schema), config.secrets, order)
    return switchSchemeOf(client, postgres.schema, { ...order, name: newestSchemeName(config.secrets) })
  })
}

/**
 * Refuses a switch without the secret of the previous scheme, because it would block every gateway and cannot be undone. Refuses
 * --secret-lost if this file or a gateway still has the secret. @throws StartError
 */
function refuseIfSecretMissing (
  { schemes: [current, earlier], gateways }: SchemeReport,
  secrets: readonly Buffer[],
  { isLost, without = [] }: Order
): void {
  const isCurrent = current?.name === newestSchemeName(secrets)
  const other = isCurrent ? earlier : current
  const isMissing = other?.name != null &&
    other.endedMs === null &&
    !other.isLost &&
    keysOf({ number: other.number, name: other.name }, secrets).kind !== 'keys'
  if (isLost && !isMissing && !(isCurrent && other?.isLost === true)) {
    throw new StartError(`No secret is missing here${other?.name == null ? '' : `: this file can make ids by the scheme ${other.name}`}. Omit --secret-lost.`)
  }
  const holder = gateways.find(({ instance, schemes }) =>
    other?.name != null && schemes?.includes(other.name) === true && !without.includes(instance))
  if (isLost && isMissing && holder !== undefined) {
    throw new StartError(`The secret of the scheme ${other.name} is not lost: the gateway ${holder.instance} has it. Set secret or previousSecret to it. If that gateway is gone for good, name it with --without.`)
  }
  if (!isLost && !isCurrent && isMissing) {
    throw new StartError(`The current scheme ${other.name} has a secret that is missing here. Set previousSecret to it. If the embedded store created it, restore the store's file \`secret\`. If it is lost, add --secret-lost.`)
  }
}

function printResult (
  result: SwitchResult,
  { dryRun, isLost, newSecretFile }: Order & { readonly newSecretFile: string | null },
  { out, err }: Terminal
): number {
  switch (result.kind) {
    case 'same':
      out(`Nothing to do: this is the current scheme already (number ${result.number}).`)
      return 0
    case 'earlier-left':
      err(`onceway: refused, nothing changed. ${rowsText(result.rows)} of the scheme ${result.earlier} are left, and a gateway searches two schemes at most. Wait until \`onceway ids\` says that nothing of it is left${result.untilMs === null ? '' : `, not before ${timeText(result.untilMs)}`}.`)
      return 1
    case 'unable':
      err(`onceway: refused, nothing changed. Not every gateway can make ids by this scheme: ${result.gateways.map(({ instance, silentMs }) => `${instance} (seen ${Math.round(silentMs / 1000)} s ago)`).join(', ')}. Give all of them this release and this secret first. A gateway that is gone counts for ${LIVES_MS / 60_000} minutes, unless you name it with --without.`)
      return 1
    case 'switched':
      out(`Ids ${dryRun ? 'would be' : 'are'} made by the scheme ${dryRun && newSecretFile !== null ? `${NEWEST_RULES}, with a secret that is made in ${newSecretFile}` : result.to}${result.from === null ? '' : `, instead of ${result.from}`}.`)
      if (result.from !== null) out(`${rowsText(result.rows)} ${dryRun ? 'would keep' : 'keep'} their ids. ${isLost ? LOST : 'They are still found until they end.'}`)
      if (!dryRun && newSecretFile !== null) {
        out(`Its secret is in ${newSecretFile}. Keep a copy of it, but not beside the backups of the store.`)
      }
      return done(dryRun, err)
    case 'lost':
      out(`The secret of the scheme ${result.earlier} ${dryRun ? 'would be' : 'is'} given up. ${rowsText(result.rows)} are left of it. ${LOST}`)
      return done(dryRun, err)
  }
}

function done (dryRun: boolean, err: Terminal['err']): number {
  if (!dryRun) return 0
  err('onceway: nothing was changed; add --yes to do it.')
  return 1
}

const LOST = 'They cannot be found any more. Until they end, a retry of one of them is not executed and gets an unknown outcome. An operator resolves or deletes its record.'

function rowsText ({ records, messages, marks }: SchemeRows): string {
  return `${counted(records, 'record')}, ${counted(messages, 'message')} and ${counted(marks, 'mark')}`
}

// ---------------------------------------------------------------- show

async function show (config: Config, { out }: Terminal): Promise<number> {
  for (const line of linesOf(await report(config), config)) out(line)
  return 0
}

async function report ({ stores: { postgres }, dataDir }: Config): Promise<SchemeReport> {
  if (postgres === null) return reportSchemesIn(dataDir)
  return withPostgres(postgres, async (client) => {
    await migrate(client, { schema: postgres.schema, mode: 'check' })
    return reportSchemesOf(client, postgres.schema)
  })
}

function linesOf ({ schemes: [current, earlier], gateways }: SchemeReport, config: Config): string[] {
  const { stores: { postgres }, dataDir } = config
  const own = postgres === null && readSecret(dataDir) !== null
  return [
    `ids are made by  ${current?.name ?? 'no scheme yet: the first gateway that serves chooses'}${current === undefined ? '' : sinceText(current)}`,
    ...earlier === undefined ? [] : [`before           ${earlier.name ?? ''}: ${earlierText(earlier)}`],
    `this file makes  ${schemeNames(secretsOf(config)).join(', ')}${!own ? '' : ` (with ${secretFile(dataDir)})`}`,
    ...missingOf(current, secretsOf(config)),
    ...gateways.map(({ instance, seenMs, schemes }) =>
      `gateway          ${instance}  ${timeText(seenMs)}  makes ${schemes === null ? '1' : schemes.join(', ')}`)
  ]
}

function missingOf (current: SchemeReport['schemes'][number] | undefined, secrets: readonly Buffer[]): string[] {
  const found = current?.name == null ? null : keysOf({ number: current.number, name: current.name }, secrets)
  if (found === null || found.kind === 'keys') return []
  return [
    found.kind === 'no-secret'
      ? `                 not ${current?.name ?? ''}: its secret is missing here (secret, previousSecret, or the embedded store's file secret)`
      : `                 not ${current?.name ?? ''}: it is of a later release`
  ]
}

function sinceText ({ number, sinceMs, who, why }: SchemeReport['schemes'][number]): string {
  return who === null ? '' : ` (number ${number}), since ${timeText(sinceMs)} by ${who}: ${why}`
}

function earlierText ({ isLost, endedMs, lookFromMs }: SchemeReport['schemes'][number]): string {
  const lost = isLost ? ' Its secret is lost.' : ''
  if (endedMs !== null) return `nothing of it is left since ${timeText(endedMs)}.${lost}`
  return `still searched, until nothing of it is left${lookFromMs === null ? '' : ` (not before ${timeText(lookFromMs)})`}.${lost}`
}
