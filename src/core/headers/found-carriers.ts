/** The carriers of a request: every line with a known name. One pass, because this runs on every guarded request. */
import { carrierOf, mayBeCarrier } from './carriers.ts'
import type { Carrier } from './carriers.ts'
import { fieldName } from './fields.ts'
import { trimOws } from './lines.ts'
import type { RawHeaders } from '../record/record.ts'

export interface CarrierLine {
  /** As it was sent, in lower case. `x_api_key` and `x-api-key` are two fields, though some servers take them as one. */
  readonly name: string
  /** Without spaces around it. */
  readonly value: string
  readonly carrier: Carrier
}

export interface FoundCarriers {
  /** Stable carriers and selectors, in the order in which they came. */
  readonly lines: readonly CarrierLine[]
  /** A stable carrier or selector that comes on two lines, in either spelling. Servers differ in which line they believe. null: none. */
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

/** Whether {@link findCarriers} would find these lines, and none of them repeated. `lines`: what it found where none was. */
export function hasSameCarriers (raw: RawHeaders, lines: ReadonlyArray<Pick<CarrierLine, 'name' | 'value'>>): boolean {
  let count = 0
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const sent = raw[at] ?? ''
    if (!mayBeCarrier(sent)) continue
    const { lower } = fieldName(sent)
    const carrier = carrierOf(lower)
    if (carrier === undefined || carrier.class === 'rotating') continue
    const line = lines[count++]
    if (line === undefined || line.name !== lower || line.value !== trimOws(raw[at + 1] ?? '')) return false
  }
  return count === lines.length
}
