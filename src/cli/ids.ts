/** `onceway ids`: by which scheme the ids of records are made (core/record/schemes.ts), and the switch to the newest one. */
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
import { CONFIG_OPTIONS, configFor, onlyTaken, readOptions, sayWhat, whoAndWhy } from './command.ts'
import type { Command, Options, Terminal } from './command.ts'
import { secretsOf } from './open-stores.ts'
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

By which scheme the ids of records are made: the version of the rules that say what makes two requests the same, and the
secret that keys the ids. The database names the scheme, and every gateway follows it. \`upgrade\` switches to the newest rules and
the file's secret, while gateways run: all of them must know both already (the newest release, the same secret; where it
changes, the old one as previousSecret). What is there keeps its id, and is found by it until nothing of it is left; until then
there is no further switch. The embedded store is upgraded while no gateway serves from it. Without --yes it says what it
would do, and changes nothing.

  --yes                do it
  --secret-lost        the secret of the scheme that claims now is lost (after a switch: that of the one before it): what is there can
                       be found by nobody; a request that is the same as one of those is not executed, and its outcome is said to be unknown
  --without INSTANCE   this gateway is gone for good, though it was there within the hour (more than one: once more)
  --who NAME           who did it (default: the user of this system)
  --why TEXT           why
  --config FILE        the gateway's file                   --data-dir DIR   where its embedded store is

examples:
  onceway ids --config onceway.yaml
  onceway ids upgrade --config onceway.yaml --why 'release 2 is everywhere'
  onceway ids upgrade --config onceway.yaml --why 'release 2 is everywhere' --yes`,
  run: runIds
}

async function runIds (args: readonly string[], terminal: Terminal): Promise<number> {
  const options = readOptions(args, OPTIONS, 1)
  const [name = 'show'] = options.positionals
  if (name !== 'show' && name !== 'upgrade') return sayWhat(name, ['show', 'upgrade'])
  if (name === 'show') onlyTaken(options, [], 'ids show')
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
  const makes = postgres === null && secretsOf(config).length === 0 ? secretFile(dataDir) : null
  return tell(await switchScheme(config, order), { ...order, makes }, terminal)
}

function listOf (value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : []
}

type Order = Omit<SwitchOrder, 'name'>

async function switchScheme (config: Config, order: Order): Promise<SwitchResult> {
  const { stores: { postgres }, dataDir } = config
  if (postgres === null) {
    const secrets = secretsOf(config)
    // What is refused leaves no secret behind: looked at with one that is thrown away.
    const looked = secrets.length > 0 ? secrets : [randomBytes(SECRET_BYTES_MIN)]
    refuseToLose(reportSchemesIn(dataDir), looked, order)
    const result = switchSchemeIn(dataDir, { ...order, name: newestSchemeName(looked), dryRun: true })
    if (order.dryRun || (result.kind !== 'switched' && result.kind !== 'lost')) return result
    return switchSchemeIn(dataDir, { ...order, name: newestSchemeName(secrets.length > 0 ? secrets : [makeSecret(dataDir)]) })
  }
  return withPostgres(postgres, async (client) => {
    // What is refused, or only looked at, changes nothing: a gateway of this release has brought the schema up to date.
    await migrate(client, { schema: postgres.schema, mode: 'check' })
    refuseToLose(await reportSchemesOf(client, postgres.schema), config.secrets, order)
    return switchSchemeOf(client, postgres.schema, { ...order, name: newestSchemeName(config.secrets) })
  })
}

/**
 * Whoever may claim by a new scheme needs the secret of the one before as well: without it every gateway would be blocked by the
 * switch, and there is no way back. And what can be found is not to be given up. @throws StartError
 */
function refuseToLose (
  { schemes: [current, earlier], gateways }: SchemeReport,
  secrets: readonly Buffer[],
  { isLost, without = [] }: Order
): void {
  const claims = current?.name === newestSchemeName(secrets)
  const left = claims ? earlier : current
  const isMissing = left?.name != null &&
    left.endedMs === null &&
    !left.isLost &&
    keysOf({ number: left.number, name: left.name }, secrets).kind !== 'keys'
  if (isLost && !isMissing && !(claims && left?.isLost === true)) {
    throw new StartError(`No secret is missing here${left?.name == null ? '' : `: this file can make ids by the scheme ${left.name}`}. Leave --secret-lost out.`)
  }
  const knowing = gateways.find(({ instance, schemes }) =>
    left?.name != null && schemes?.includes(left.name) === true && !without.includes(instance))
  if (isLost && isMissing && knowing !== undefined) {
    throw new StartError(`The secret of the scheme ${left.name} is not lost: the gateway ${knowing.instance} has it. Set secret or previousSecret to it. If that gateway is gone for good, name it with --without.`)
  }
  if (!isLost && !claims && isMissing) {
    throw new StartError(`Ids are made by the scheme ${left.name} now, with a secret that is missing here: set previousSecret to it, or where the embedded store made it itself, put its file secret back. Where nobody has it any more, say --secret-lost.`)
  }
}

function tell (result: SwitchResult, { dryRun, isLost, makes }: Order & { readonly makes: string | null }, { out, err }: Terminal): number {
  switch (result.kind) {
    case 'same':
      out(`Nothing to do: ids are made by this scheme already, the ${result.number}. here.`)
      return 0
    case 'earlier-left':
      err(`onceway: refused, nothing changed. ${rowsText(result.rows)} of the scheme ${result.earlier} are left, and only two schemes can be looked for: wait until \`onceway ids\` says that nothing of it is left${result.untilMs === null ? '' : `, not before ${timeText(result.untilMs)}`}.`)
      return 1
    case 'unable':
      err(`onceway: refused, nothing changed. Not every gateway can make ids by this scheme: ${result.gateways.map(({ instance, silentMs }) => `${instance} (seen ${Math.round(silentMs / 1000)} s ago)`).join(', ')}. Give all of them this release and this secret first. One that is gone for good counts for ${LIVES_MS / 60_000} minutes, or until you name it with --without.`)
      return 1
    case 'switched':
      out(`Ids ${dryRun ? 'would be' : 'are'} made by the scheme ${dryRun && makes !== null ? `${NEWEST_RULES}, with a secret that is made in ${makes}` : result.to}${result.from === null ? '' : `, instead of ${result.from}`}.`)
      if (result.from !== null) out(`${rowsText(result.rows)} ${dryRun ? 'would keep' : 'keep'} their ids. ${isLost ? LOST : 'They are found by them, until they end.'}`)
      if (!dryRun && makes !== null) out(`Its secret has been made in ${makes}: keep a copy, and not beside the copies of the store.`)
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

const LOST = 'Nobody can find them any more. Until they end, a request that is the same as one of those is not executed: its outcome is said to be unknown, and an operator resolves or deletes the record.'

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
    ...earlier === undefined ? [] : [`before           ${earlier.name ?? ''}: ${leftText(earlier)}`],
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
      ? `                 not ${current?.name ?? ''}: its secret is missing here (secret, previousSecret; beside the embedded store its file secret)`
      : `                 not ${current?.name ?? ''}: it is of a later release`
  ]
}

function sinceText ({ number, sinceMs, who, why }: SchemeReport['schemes'][number]): string {
  return who === null ? '' : `, the ${number}. here, since ${timeText(sinceMs)} by ${who}: ${why}`
}

function leftText ({ isLost, endedMs, lookFromMs }: SchemeReport['schemes'][number]): string {
  const lost = isLost ? ' Its secret is lost.' : ''
  if (endedMs !== null) return `nothing of it is left since ${timeText(endedMs)}.${lost}`
  return `looked for as well, ${lookFromMs === null ? 'until nothing of it is left' : `until nothing of it is left, not before ${timeText(lookFromMs)}`}.${lost}`
}
