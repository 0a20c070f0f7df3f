/**
 * The identity of a CloudEvent: its source and its id together (CloudEvents 1.0.2, 3.1), in any HTTP mode (HTTP protocol binding 1.0.2, 3).
 * In structured mode the body has the identity, even if there are ce- headers.
 */
import { readPointer } from '../json/pointer.ts'
import type { KeyInput, CustomKey, SourcedKey, Value, Values } from '../policy/key-source.ts'
import { bodyValue, headerText, keyOfParts, percentDecoded } from './values.ts'
import { headerValue } from '../headers/lines.ts'

export function cloudEventKey (): CustomKey {
  return {
    kind: 'custom',
    headers: ['ce-source', 'ce-id'],
    pointers: [SOURCE, ID],
    needsBody: (input) => modeOf(input) === 'structured',
    find: (input, values) => {
      switch (modeOf(input)) {
        case 'structured': return ofBody(values())
        case 'binary': return ofHeaders(input)
        case 'batch':
          return { kind: 'invalid', detail: 'A batch of CloudEvents has no identity of its own, and what is in it may differ from one attempt to the next. Send its events one by one.' }
        case 'unreadable':
          return {
            kind: 'invalid',
            detail: 'A structured CloudEvent is read as JSON (application/cloudevents+json) only. Send it so, or in binary mode.'
          }
      }
    }
  }
}

type Mode = 'binary' | 'structured' | 'batch' | 'unreadable'

const SOURCE = readPointer('/source') ?? []
const ID = readPointer('/id') ?? []

/** By the beginning of the media type, without case, as the binding says. */
function modeOf ({ rawHeaders }: KeyInput): Mode {
  const media = headerValue(rawHeaders, 'content-type')?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (media.startsWith('application/cloudevents-batch')) return 'batch'
  if (!media.startsWith('application/cloudevents')) return 'binary'
  return media === 'application/cloudevents' || media.endsWith('+json') ? 'structured' : 'unreadable'
}

function ofBody (values: Values): SourcedKey {
  return together(bodyValue(values, SOURCE), bodyValue(values, ID), (name) => `the event's ${name}, in the body at /${name}`)
}

function ofHeaders ({ rawHeaders }: KeyInput): SourcedKey {
  const [source, id] = [headerText('ce-source', rawHeaders, decoded), headerText('ce-id', rawHeaders, decoded)]
  if (source.kind === 'none' && id.kind === 'none') return { kind: 'absent' }
  return together(source, id, (name) => `the event's ${name}, in the ce-${name} header`)
}

function together (source: Value, id: Value, what: (name: string) => string): SourcedKey {
  return keyOfParts([{ value: source, what: what('source') }, { value: id, what: what('id') }])
}

/**
 * Quotation marks first, then one round of percent-decoding (binding, 3.1.3.2). Characters outside printable ASCII should have been
 * encoded.
 */
function decoded (line: string): Value {
  if (!PRINTABLE.test(line)) return { kind: 'unfit', why: 'is not percent-encoded UTF-8' }
  return percentDecoded(QUOTED.test(line) ? line.slice(1, -1).replace(/\\(.)/g, '$1') : line)
}

const PRINTABLE = /^[\x20-\x7e]*$/
const QUOTED = /^"(?:[^"\\]|\\.)*"$/
