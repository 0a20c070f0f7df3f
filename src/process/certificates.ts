/**
 * The certificate of a listener: read at the start, on SIGHUP, and when its files change. A pair that cannot be used is logged and counted,
 * and the earlier one stays.
 */
import { unwatchFile, watchFile } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import type { ListenerTlsConfig } from '../config/config.ts'
import { outOfDate, readListenerTls } from '../config/listener-tls.ts'
import type { ListenerTlsTexts } from '../config/listener-tls.ts'
import type { ListenerTls } from '../http/connection/tls.ts'
import { errorText, StartError } from '../ports/errors.ts'
import type { HandshakeFault, Listener, Log, TlsMeter } from '../ports/telemetry.ts'

/** Kubernetes and cert-manager swap symbolic links. `stat` follows them, and a watch of the file system would not. */
const LOOK_EVERY_MS = 1_000
/** Certificate and key are two files. Whoever writes them needs a moment between the two. */
const SETTLED_AFTER_MS = 500
/** Anybody can cause thousands of failures a second. */
const LOG_EVERY_MS = 10_000

interface Deps { readonly log: Log, readonly meter: TlsMeter }

export class ListenerCertificates implements ListenerTls {
  readonly clientCertificates: ListenerTls['clientCertificates']
  readonly #listener: Listener
  readonly #deps: Deps
  readonly #takes: Array<() => void> = []
  readonly #failures: HandshakeFailures
  #config: ListenerTlsConfig
  #texts: ListenerTlsTexts
  #settling: NodeJS.Timeout | undefined

  /** null: the listener speaks plain HTTP. @throws StartError */
  static open (listener: Listener, config: ListenerTlsConfig | null, deps: Deps): ListenerCertificates | null {
    return config === null ? null : new ListenerCertificates(listener, config, deps)
  }

  private constructor (listener: Listener, config: ListenerTlsConfig, deps: Deps) {
    this.clientCertificates = config.clientCertificates
    this.#listener = listener
    this.#deps = deps
    this.#config = config
    this.#texts = soundTexts(config)
    this.#failures = new HandshakeFailures(listener, deps)
    deps.meter.certificate(listener, this.#texts.expiresAtMs)
    this.#watch()
  }

  context (): ReturnType<ListenerTls['context']> {
    const { cert, key, ca } = this.#texts
    return { cert, key, ca, minVersion: this.#config.minVersion }
  }

  onChange (take: () => void): void { this.#takes.push(take) }

  failed (fault: HandshakeFault, code: string): void { this.#failures.note(fault, code) }

  /** The configuration of a reload. The files are read again. */
  reconfigure (config: ListenerTlsConfig | null): void {
    if (config === null) return
    this.#unwatch()
    this.#config = config
    this.#watch()
    this.#read(true)
  }

  close (): void {
    clearTimeout(this.#settling)
    this.#unwatch()
  }

  readonly #changed = (): void => {
    clearTimeout(this.#settling)
    this.#settling = setTimeout(() => { this.#read() }, SETTLED_AFTER_MS).unref()
  }

  /** `always`: the text may be the same, and its settings not. */
  #read (always = false): void {
    const { log, meter } = this.#deps
    const listener = this.#listener
    try {
      const texts = soundTexts(this.#config)
      const before = this.#texts
      const isNew = !isDeepStrictEqual(texts, before)
      if (!isNew && !always) return
      if (isNew) this.#mustBeOfUse(texts)
      this.#take(texts)
      if (!isNew) return
      const { certFile, clientCaFile } = this.#config
      const file = texts.cert === before.cert && texts.key === before.key ? clientCaFile : certFile
      const expires = new Date(texts.expiresAtMs).toISOString()
      meter.certificate(listener, texts.expiresAtMs)
      meter.certificateRead(listener, 'ok')
      log.info({ event: 'certificate-loaded', listener, file, expires }, 'new connections use the changed files')
    } catch (error) {
      meter.certificateRead(listener, 'refused')
      log.error(
        { event: 'certificate-refused', listener, reason: errorText(error) },
        'a changed certificate cannot be used; the earlier one stays'
      )
    }
  }

  /** @throws StartError: clients would refuse the changed certificate, and take the earlier one. */
  #mustBeOfUse (texts: ListenerTlsTexts): void {
    const now = Date.now()
    const why = outOfDate(texts, now)
    if (why !== null && outOfDate(this.#texts, now) === null) throw new StartError(`${this.#config.certFile} ${why}`, 1)
  }

  #take (texts: ListenerTlsTexts): void {
    const before = this.#texts
    this.#texts = texts
    try {
      for (const take of this.#takes) take()
    } catch (error) {
      this.#texts = before
      throw error
    }
  }

  /** A change before the first look would not be seen. So the files are read once more. */
  #watch (): void {
    this.#changed()
    for (const file of filesOf(this.#config)) watchFile(file, { interval: LOOK_EVERY_MS, persistent: false }, this.#changed)
  }

  #unwatch (): void {
    for (const file of filesOf(this.#config)) unwatchFile(file, this.#changed)
  }
}

function filesOf ({ certFile, keyFile, clientCaFile }: ListenerTlsConfig): string[] {
  return [certFile, keyFile, ...clientCaFile === null ? [] : [clientCaFile]]
}

function soundTexts (config: ListenerTlsConfig): ListenerTlsTexts {
  const read = readListenerTls(config)
  if ('wrong' in read) throw new StartError(read.wrong, 1)
  return read
}

/** Counts, and logs the counts. A client that goes away during its handshake is no failure to look at. */
class HandshakeFailures {
  readonly #listener: Listener
  readonly #deps: Deps
  #counts: Partial<Record<HandshakeFault, number>> = {}
  #loggedAtMs = -Infinity

  constructor (listener: Listener, deps: Deps) {
    this.#listener = listener
    this.#deps = deps
  }

  note (fault: HandshakeFault, code: string): void {
    const { log, meter } = this.#deps
    meter.handshakeFailed(this.#listener, fault)
    if (fault === 'closed') return
    this.#counts[fault] = (this.#counts[fault] ?? 0) + 1
    const now = performance.now()
    if (now - this.#loggedAtMs < LOG_EVERY_MS) return
    log.warn(
      { event: 'tls-handshake-failed', listener: this.#listener, reasons: this.#counts, code },
      'TLS handshakes failed; these connections are closed'
    )
    this.#counts = {}
    this.#loggedAtMs = now
  }
}
