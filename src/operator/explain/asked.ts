/** What an operator asks about: a request, or a key and a caller. Types only. */
import type { RawHeaders } from '../../core/record/record.ts'

/** A request as a gateway would get it. Texts have a byte in each character (latin1), as Node hands them over. */
export interface AskedRequest {
  readonly method: string
  readonly target: string
  /** Used if `headers` have no Host. null: there is none. */
  readonly host: string | null
  readonly headers: RawHeaders
  readonly body: Buffer
  /** The address of the peer, for `trustProxies`. Absent: a peer that is not trusted. */
  readonly peerAddress?: string
  /** The identity in the certificate of the peer, as text. Absent: there is none. */
  readonly clientCertificate?: string
}

export interface PastedRequest extends AskedRequest {
  /** What was guessed or added, in sentences. */
  readonly notes: readonly string[]
}

/** For routes whose key is in a header. The rest of the request is not known, so that nothing is compared. */
export interface AskedKey {
  readonly route: string
  readonly key: string
  /** The fields that name the caller: its credential, its account. */
  readonly callerHeaders: RawHeaders
  /** Where the host is a part of the record. Absent: the request names none. */
  readonly host?: string
  readonly peerAddress?: string
  readonly clientCertificate?: string
}
