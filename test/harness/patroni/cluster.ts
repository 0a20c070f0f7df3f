/**
 * Three Postgres servers under Patroni with three etcd, HAProxy and PgBouncer, from Debian's packages and the files of deploy/ha.
 * `npm run ha` shows it, and `chaos --topology patroni` breaks it.
 */
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findPostgresTools, unprivilegedUser } from '../binaries.ts'
import { makeDirectory } from '../directory.ts'
import { freePort } from '../ports.ts'
import { query } from '../postgres.ts'
import { fillIn, giveTo } from './files.ts'
import { PatroniNode } from './node.ts'
import { HaServer, programOf } from './server.ts'

export const NODES = ['a', 'b', 'c'] as const
export type NodeName = typeof NODES[number]

/** What connections a link carries: to a node's Postgres and Patroni from other nodes and from HAProxy, and from a node to etcd. */
export type LinkKind = 'postgres' | 'rest' | 'front' | 'check' | 'etcd'

export interface PatroniClusterOptions {
  /** Resolves to the port of a link to the target. Absent: no links. */
  readonly link?: (node: NodeName, kind: LinkKind, target: number) => Promise<number>
}

/** A first standby takes seconds, on a busy machine many. */
const SETTLED_MS_MAX = 180_000
/** A connection to a server that has just lost its place may never answer. */
const LOOK_MS_MAX = 5_000
/** Of each node, in the message of what was waited for in vain. */
const LOG_LINES = 30
const HOST = '127.0.0.1'

export async function startPatroni (options: PatroniClusterOptions = {}): Promise<PatroniCluster> {
  const cluster = new PatroniCluster(options)
  try {
    await cluster.start()
  } catch (error) {
    await cluster.stop()
    throw error
  }
  return cluster
}

export class PatroniCluster {
  readonly directory = makeDirectory('patroni')
  readonly etcd: HaServer[] = []
  readonly nodes: PatroniNode[] = []
  readonly password = randomBytes(12).toString('hex')
  haproxy: HaServer | null = null
  pgbouncer: HaServer | null = null
  statsPort = 0
  readonly #options: PatroniClusterOptions
  readonly #user = unprivilegedUser()

  constructor (options: PatroniClusterOptions) {
    this.#options = options
  }

  /** Of the database `onceway`, by its owner, through HAProxy. */
  get url (): string { return this.#urlAt(this.haproxy?.port) }

  /** A superuser's, through HAProxy. */
  get frontUrl (): string { return `postgres://postgres:${this.password}@${HOST}:${this.haproxy?.port ?? 0}/postgres` }

  /** As {@link url}, through PgBouncer, as gateways use it. */
  get pooledUrl (): string { return this.#urlAt(this.pgbouncer?.port) }

  async start (): Promise<void> {
    giveTo(this.directory.path, this.#user, 0o700)
    const clients = await this.#startEtcd()
    const ports = await this.#makeNodes(clients)
    // The first one makes the cluster, and the others copy it.
    for (const node of this.nodes) {
      node.start()
      await this.#until(async () => {
        // Patroni ends if its Postgres cannot start, as while somebody else has the port. It has taken back by then what it made.
        if (!node.isRunning) node.start()
        return await this.leader() !== null || 'none'
      }, `a leader of ${node.name}`)
    }
    await this.#startHaproxy(ports)
    await this.settled()
    const leader = await this.leader()
    if (leader === null) throw new Error('the cluster has lost its leader while starting')
    await query(leader.url, `create role onceway login password '${this.password}'`)
    await query(leader.url, 'create database onceway owner onceway')
    await this.#startPgbouncer()
  }

  /** Nobody: nobody says so at this moment. */
  async leader (): Promise<PatroniNode | null> {
    const found = await Promise.all(this.nodes.map(async (node) => await node.check('/leader') === 200 ? node : null))
    return found.find((node) => node !== null) ?? null
  }

  async standbys (): Promise<PatroniNode[]> {
    const leader = await this.leader()
    return this.nodes.filter((node) => node !== leader)
  }

  /** Of the dynamic configuration, which each node takes in its next round. */
  async configure (settings: Readonly<Record<string, unknown>>): Promise<void> {
    const leader = await this.leader()
    const answer = await leader?.ask('PATCH', '/config', settings)
    if (answer?.status !== 200) throw new Error(`Patroni did not take ${JSON.stringify(settings)}: ${answer?.text}`)
  }

  /** Every standby follows, commits wait for each of them, Patroni may promote each of them, and the address leads to the leader. */
  async settled (): Promise<void> {
    await this.#until(async () => {
      const leader = await this.leader()
      if (leader === null) return 'no leader'
      const [row] = await query(leader.url, `select
        (select count(*)::int from pg_stat_replication where sync_state = 'sync' and state = 'streaming') as synchronous,
        current_setting('synchronous_standby_names') as names, inet_server_port() as port`, LOOK_MS_MAX)
      if (row?.['synchronous'] !== NODES.length - 1 || row['names'] === '*') return `the leader ${leader.name} sees ${JSON.stringify(row)}`
      // Patroni writes later which of them it may promote. Until then it refuses a switchover.
      const known = await Promise.all(this.nodes.filter((node) => node !== leader).map((node) => node.check('/sync')))
      if (known.some((status) => status !== 200)) return `/sync of the standbys of ${leader.name}: ${known.join(', ')}`
      const [through] = await query(this.frontUrl, 'select inet_server_port() as port', LOOK_MS_MAX)
      return through?.['port'] === row['port'] || `HAProxy leads to ${String(through?.['port'])}`
    }, 'the cluster to settle')
  }

  async stop (): Promise<void> {
    await this.pgbouncer?.kill()
    await this.haproxy?.kill()
    await Promise.all(this.nodes.map(async (node) => node.stop()))
    await Promise.all(this.etcd.map(async (server) => server.kill()))
    this.directory.remove()
  }

  // -------------------------------------------------------------- parts

  async #startEtcd (): Promise<number[]> {
    const members = await Promise.all(NODES.map(async (name) => ({ name, client: await freePort(), peer: await freePort() })))
    const cluster = members.map(({ name, peer }) => `${name}=http://${HOST}:${peer}`).join(',')
    for (const { name, client, peer } of members) {
      const [to, data] = [join(this.directory.path, `etcd-${name}.yml`), join(this.directory.path, `etcd-${name}`)]
      fillIn({
        name: 'etcd.yml',
        values: { NAME: name, DATA_DIRECTORY: data, HOST, CLIENT_PORT: client, PEER_PORT: peer, CLUSTER: cluster },
        to,
        user: this.#user
      })
      this.etcd.push(this.#server({ name: `etcd-${name}`, file: programOf('etcd'), args: ['--config-file', to], port: client }))
    }
    await Promise.all(this.etcd.map(async (server) => server.start()))
    return members.map(({ client }) => client)
  }

  async #makeNodes (etcd: readonly number[]): Promise<Array<Readonly<Record<'front' | 'check', number>>>> {
    const tools = findPostgresTools()
    if (tools.kind !== 'binaries') throw new Error(tools.kind === 'none' ? tools.why : 'Postgres as a program')
    const ports = []
    for (const name of NODES) {
      const [postgresPort, restPort] = [await freePort(), await freePort()]
      const link = async (kind: LinkKind, target: number): Promise<number> => this.#options.link?.(name, kind, target) ?? target
      const [to, dataDirectory] = [join(this.directory.path, `patroni-${name}.yml`), join(this.directory.path, name)]
      const seen: string[] = []
      for (const port of etcd) seen.push(`${HOST}:${await link('etcd', port)}`)
      fillIn({
        name: 'patroni.yml',
        values: {
          NAME: name,
          HOST,
          REST_PORT: restPort,
          REST_ADDRESS: `${HOST}:${await link('rest', restPort)}`,
          ETCD_HOSTS: seen.join(','),
          POSTGRES_PORT: postgresPort,
          POSTGRES_ADDRESS: `${HOST}:${await link('postgres', postgresPort)}`,
          DATA_DIRECTORY: dataDirectory,
          BIN_DIRECTORY: tools.directory,
          PGPASS_FILE: join(this.directory.path, `pgpass-${name}`),
          SUPERUSER_PASSWORD: this.password,
          REPLICATION_PASSWORD: this.password,
          REWIND_PASSWORD: this.password,
          // pg_rewind copies a socket's lock file that is in the data directory, and Postgres does not start beside it.
          SOCKET_DIRECTORY: this.directory.path,
          NETWORK: `${HOST}/32`,
          WATCHDOG: 'off'
        },
        to,
        user: this.#user
      })
      this.nodes.push(new PatroniNode({
        name,
        directory: this.directory.path,
        file: to,
        dataDirectory,
        restPort,
        postgresPort,
        url: `postgres://postgres:${this.password}@${HOST}:${postgresPort}/postgres`,
        // Otherwise it asks etcd for addresses, and goes past the links.
        env: this.#options.link === undefined ? {} : { PATRONI_ETCD3_USE_PROXIES: 'true' },
        user: this.#user
      }))
      ports.push({ front: await link('front', postgresPort), check: await link('check', restPort) })
    }
    return ports
  }

  async #startHaproxy (ports: ReadonlyArray<Readonly<Record<'front' | 'check', number>>>): Promise<void> {
    const [port, to] = [await freePort(), join(this.directory.path, 'haproxy.cfg')]
    this.statsPort = await freePort()
    const servers = NODES.flatMap((name, index) => {
      const { front = 0, check = 0 } = ports[index] ?? {}
      const upper = name.toUpperCase()
      return [[`${upper}_POSTGRES`, `${HOST}:${front}`], [`${upper}_REST_HOST`, HOST], [`${upper}_REST_PORT`, check]] as const
    })
    fillIn({
      name: 'haproxy.cfg',
      values: { HOST, PRIMARY_PORT: port, STATS_PORT: this.statsPort, ...Object.fromEntries(servers) },
      to,
      user: this.#user
    })
    this.haproxy = await this.#server({ name: 'haproxy', file: programOf('haproxy'), args: ['-db', '-f', to], port }).start()
  }

  async #startPgbouncer (): Promise<void> {
    const [port, to, users] = [await freePort(), join(this.directory.path, 'pgbouncer.ini'), join(this.directory.path, 'users.txt')]
    writeFileSync(users, `"onceway" "${this.password}"\n`)
    giveTo(users, this.#user, 0o600)
    const values = { HAPROXY_HOST: HOST, HAPROXY_PORT: this.haproxy?.port ?? 0, HOST, PORT: port, USERS_FILE: users }
    fillIn({ name: 'pgbouncer.ini', values, to, user: this.#user })
    this.pgbouncer = await this.#server({ name: 'pgbouncer', file: programOf('pgbouncer'), args: [to], port }).start()
  }

  #server (options: Omit<ConstructorParameters<typeof HaServer>[0], 'directory' | 'user'>): HaServer {
    return new HaServer({ ...options, directory: this.directory.path, user: this.#user })
  }

  #urlAt (port: number | undefined): string { return `postgres://onceway:${this.password}@${HOST}:${port ?? 0}/onceway` }

  /** `look`: true, or what is not so yet. */
  async #until (look: () => Promise<true | string>, what: string): Promise<void> {
    const endsAt = performance.now() + SETTLED_MS_MAX
    for (;;) {
      const seen = await look().catch(String)
      if (seen === true) return
      if (performance.now() > endsAt) throw new Error(`waited in vain for ${what}: ${seen}\n${this.#lastLogs()}`)
      await sleep(200)
    }
  }

  #lastLogs (): string {
    // One that has not been started yet has none.
    const logs = [...this.nodes, ...this.etcd].filter(({ log }) => existsSync(log))
    return logs.map(({ log }) => `${log}:\n${readFileSync(log, 'utf8').split('\n').slice(-LOG_LINES).join('\n')}`).join('\n')
  }
}
