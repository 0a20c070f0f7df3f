/** What a request shows of its caller: every line of a known name, found in one pass, since this is asked of every guarded request. */
import { carrierOf, mayBeCarrier } from './carriers.ts'
import type { Carrier } from './carriers.ts'
import { trimOws } from './lines.ts'
import type { RawHeaders } from '../record/record.ts'

export interface CarrierLine {
  /** As it was sent, in lower case: `x_api_key` is another field than `x-api-key`, though some servers take it for the same. */
  readonly name: string
  /** Without spaces around it. */
  readonly value: string
  readonly carrier: Carrier
}

export interface FoundCarriers {
  /** Stable carriers and selectors, in the order in which they came. */
  readonly lines: readonly CarrierLine[]
  /** One of them that comes on two lines, in either spelling: servers differ in which of them they believe. */
  readonly repeated: Carrier | null
  readonly rotating: readonly Carrier[]
}

export function findCarriers (raw: RawHeaders): FoundCarriers {
  const lines: CarrierLine[] = []
  let repeated: Carrier | null = null
  const rotating: Carrier[] = []
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const sent = raw[at] ?? ''
    if (!mayBeCarrier(sent)) continue
    const name = sent.toLowerCase()
    const carrier = carrierOf(name)
    if (carrier === undefined) continue
    if (carrier.class === 'rotating') rotating.push(carrier)
    else if (lines.some((line) => line.carrier === carrier)) repeated ??= carrier
    else lines.push({ name, value: trimOws(raw[at + 1] ?? ''), carrier })
  }
  return { lines, repeated, rotating }
}
