/**
 * The primary of a gateway with several workers. It binds the port and hands connections to workers. It has the admin
 * port, checks new configurations and receives signals. It handles no request, and opens stores for operators alone.
 */
import { adminPort } from '../admin.ts'
import type { UnderWay } from '../serving.ts'
import type { AppOptions } from '../app.ts'
import { banner } from '../banner.ts'
import { SYSTEM_CLOCK } from '../clock.ts'
import type { Config } from '../../config/config.ts'
import { leasesOf } from '../../config/derived.ts'
import type { LeaseRange } from '../../config/derived.ts'
import { StartError } from '../../ports/errors.ts'
import type { Readiness } from '../../http/admin.ts'
import { NONE_INHERITED } from '../../http/inherited.ts'
import { Reloads } from '../process-view.ts'
import { whereOf } from '../stores.ts'
import { checkReload, noteReloaded } from '../reload.ts'
import type { CheckedReload, ReloadOptions } from '../reload.ts'
import { WorkerSnapshots } from '../../telemetry/aggregate.ts'
import type { Exposition, Series } from '../../telemetry/aggregate.ts'
import { createLogs } from '../../telemetry/log.ts'
import type { Logs } from '../../telemetry/log.ts'
import type { Log, TlsMeter } from '../../ports/telemetry.ts'
import { createPrimaryMetrics } from '../../telemetry/metrics.ts'
import { WORKER_STATES } from '../../telemetry/process-metrics.ts'
import { Supervisor } from './supervisor.ts'
import { sentConfig } from './worker-protocol.ts'
import type { About, Answers, Listening, Question, Start } from './worker-protocol.ts'
import { readinessOfAll } from './readiness.ts'
import { prepareCluster, WorkerProcess } from './worker-handle.ts'
import type { WorkerHandle } from './worker-handle.ts'

/** Kubernetes gives a probe one second by default. */
const READINESS_WITHIN_MS = 500
/** Prometheus gives a scrape ten seconds by default. */
const METRICS_WITHIN_MS = 2_000
/** To take a configuration takes some milliseconds. A stalled worker takes it when it goes on. */
const RECONFIGURE_WITHIN_MS = 5_000
/** After delay and timeout, a drain cuts off, answers and closes its stores. If all of them hang, that takes 15 seconds. */
const DRAIN_MARGIN_MS = 20_000

const SHARED_SOCKET =
  'The service manager hands over the guarded port, and several workers cannot share it: set workers: 1, or let onceway open the port itself.'

export interface Primary {
  /** Resolves with the URL when all workers listen for the first time. */
  readonly complete: Promise<string>
  /** Resolves if another try makes no sense. */
  readonly gaveUp: Promise<StartError>
  /** See App. */
  readonly reload: (load: (() => Config) | null) => void
  /** See App. The sum over all workers that answer. */
  readonly stopping: () => Promise<UnderWay & Config['drain']>
  /** Drains all workers and waits for their end. Resolves with the exit code. */
  readonly stop: () => Promise<number>
  /** Kills all workers at once. */
  readonly kill: () => void
}

/** `size`: the number of workers. @throws StartError if the admin port cannot be bound, or if workers would have to share a socket. */
export async function startPrimary (
  config: Config,
  { size, instance, announce, inherited = NONE_INHERITED }: AppOptions & { readonly size: number, readonly instance: string }
): Promise<Primary> {
  // Node closes the primary's socket with its last worker, and the next worker could not have it.
  if (inherited.guarded !== null) throw new StartError(SHARED_SOCKET, 2)
  const logs = createLogs({ level: config.log.level, instance, shared: true })
  const { log } = logs
  const gateway = new Workers(config, size, logs)
  const admin = adminPort({
    config: () => gateway.config,
    log,
    meter: gateway.meter,
    metrics: { expose: gateway.expose, series: () => gateway.series() },
    reloads: gateway.reloads,
    readiness: gateway.readiness,
    alive: () => gateway.supervisor.handles.length > 0,
    // Marks in memory are in the workers, each with its own.
    marksOf: () => null,
    instance,
    workers: size,
    socket: inherited.admin,
    where: whereOf(config)
  })
  const adminUrl = await admin.listen()
  for (const remark of config.warnings) log.warn({ event: 'config-remark', file: config.file }, remark)
  prepareCluster()
  gateway.supervisor.fill()
  return {
    complete: gateway.complete.promise.then(({ url, where }) => {
      for (const line of banner(config, where, url, adminUrl, size)) announce(line)
      return url
    }),
    gaveUp: gateway.gaveUp.promise,
    reload: (load) => { gateway.reload(load, admin.reconfigure) },
    stopping: () => gateway.stopping(),
    stop: async () => {
      const clean = await gateway.drain()
      await admin.close()
      return clean ? 0 : 1
    },
    kill: () => { gateway.supervisor.kill() }
  }
}

class Workers {
  config: Config
  readonly supervisor: Supervisor
  readonly complete = Promise.withResolvers<Listening>()
  readonly gaveUp = Promise.withResolvers<StartError>()
  readonly readiness: () => Promise<Readiness>
  readonly expose: () => Promise<Exposition>
  readonly #logs: Logs
  readonly #log: Log
  readonly #metrics = createPrimaryMetrics()
  readonly meter: TlsMeter = this.#metrics
  readonly reloads = new Reloads(this.#metrics.reloaded)
  readonly #workerSnapshots = new WorkerSnapshots()
  #leases: LeaseRange
  #draining = false
  #reloading = false
  /** A reload for a signal that came during another reload. */
  #pendingReload: (() => void) | null = null

  constructor (config: Config, size: number, logs: Logs) {
    const { log } = logs
    this.#logs = logs
    this.config = config
    this.#leases = leasesOf(config)
    this.#log = log
    this.readiness = shared(async () => this.#readiness())
    this.expose = shared(async () => this.#expose())
    this.supervisor = new Supervisor({
      size,
      clock: SYSTEM_CLOCK,
      log,
      fork: (number, events) => new WorkerProcess(SYSTEM_CLOCK, () => this.#start(number), events),
      complete: this.complete.resolve,
      ended: (handle) => {
        this.#workerSnapshots.remove(handle.id)
        if (!this.#draining) this.#metrics.workerEnded()
      },
      gaveUp: this.gaveUp.resolve
    })
  }

  /** A later worker starts with the configuration in force, not with the current file. */
  #start (worker: number): Start {
    return { kind: 'start', worker, config: sentConfig(this.config), leases: this.#leases }
  }

  // -------------------------------------------------------------- the admin port

  async #readiness (): Promise<Readiness> {
    if (this.#draining) return { phase: 'draining', degraded: [], blocked: null, durability: null }
    const answers = await this.#ask<'readiness'>({ about: 'readiness' }, READINESS_WITHIN_MS)
    const absent = Array<null>(Math.max(0, this.supervisor.size - answers.size)).fill(null)
    return readinessOfAll([...answers.values(), ...absent], this.supervisor.wasComplete)
  }

  async #expose (): Promise<Exposition> {
    const fresh = await this.#readWorkers()
    return this.#workerSnapshots.expose(await this.#metrics.snapshot(), fresh)
  }

  /** Of all workers together. */
  async series (): Promise<Series> {
    const fresh = await this.#readWorkers()
    return this.#workerSnapshots.series(await this.#metrics.snapshot(), fresh)
  }

  /** The workers whose snapshot is current. It counts them, so it comes before the snapshot of this process. */
  async #readWorkers (): Promise<ReadonlySet<number>> {
    const answers = await this.#ask<'metrics'>({ about: 'metrics' }, METRICS_WITHIN_MS, (handle, snapshot) => {
      this.#workerSnapshots.update(handle.id, snapshot)
    })
    const fresh = new Set(answers.keys())
    const counts = this.supervisor.countStates(fresh)
    for (const state of WORKER_STATES) this.#metrics.workers(state, counts[state])
    return fresh
  }

  /**
   * Asks all workers that listen. The result has the answers by worker id, without workers that did not answer.
   * `onAnswer` is called as each answer comes.
   */
  async #ask<A extends About> (
    question: Question<A>,
    withinMs: number,
    onAnswer: (handle: WorkerHandle, answer: Answers[A]) => void = () => {}
  ): Promise<Map<number, Answers[A]>> {
    const answers = new Map<number, Answers[A]>()
    await Promise.all(this.supervisor.serving.map(async (handle) => {
      const answer = await handle.ask(question, withinMs)
      if (answer === null) return
      onAnswer(handle, answer)
      answers.set(handle.id, answer)
    }))
    return answers
  }

  // -------------------------------------------------------------- a new configuration

  /** `taken`: called when the workers have it. */
  reload (load: (() => Config) | null, taken: () => void): void {
    if (this.#draining) return this.#log.warn({ event: 'reload-skipped' }, 'SIGHUP: this process is draining; nothing is reloaded')
    this.#pendingReload = () => { this.reload(load, taken) }
    if (this.#reloading) return
    this.#pendingReload = null
    const options: ReloadOptions = { log: this.#log, reloaded: this.reloads.note, shortestLeaseMs: this.#leases.shortestMs }
    const judged = checkReload(this.config, load, options)
    if (judged === null) return
    this.#reloading = true
    void this.#reconfigure(judged).then(() => {
      taken()
      noteReloaded(judged, options)
      this.#reloading = false
      this.#pendingReload?.()
    })
  }

  /** Never rejects. A worker that did not take the configuration is logged and replaced. */
  async #reconfigure ({ config }: CheckedReload): Promise<void> {
    const { shortestMs, longestMs } = this.#leases
    this.config = config
    this.#leases = { shortestMs, longestMs: Math.max(longestMs, leasesOf(config).longestMs) }
    this.#logs.setLevel(config.log.level)
    await Promise.all(this.supervisor.handles.map(async (handle) => { await this.#sendConfig(handle, config) }))
  }

  async #sendConfig (handle: WorkerHandle, config: Config): Promise<void> {
    const refused = await handle.ask<'take'>({ about: 'take', config: sentConfig(config) }, RECONFIGURE_WITHIN_MS)
    if (typeof refused !== 'string') return
    this.#log.error(
      { event: 'worker-refused-config', pid: handle.pid, reason: refused },
      'a worker did not take the configuration; it is replaced'
    )
    handle.drain()
  }

  // -------------------------------------------------------------- the end

  async stopping (): Promise<UnderWay & Config['drain']> {
    const all = [...(await this.#ask<'underWay'>({ about: 'underWay' }, READINESS_WITHIN_MS)).values()]
    const sum = (what: keyof UnderWay): number => all.reduce((total, each) => total + each[what], 0)
    return { executions: sum('executions'), deliveries: sum('deliveries'), ...this.config.drain }
  }

  async drain (): Promise<boolean> {
    const { delayMs, timeoutMs } = this.config.drain
    this.#draining = true
    this.#log.info({ event: 'drain-started', workers: this.supervisor.handles.length, delayMs, timeoutMs }, 'draining')
    return this.supervisor.drain(delayMs + timeoutMs + DRAIN_MARGIN_MS)
  }
}

/** Callers that ask during a run share its result. */
function shared<T> (work: () => Promise<T>): () => Promise<T> {
  let inFlight: Promise<T> | null = null
  return () => {
    inFlight ??= work().finally(() => { inFlight = null })
    return inFlight
  }
}
