/**
 * What a second request has otherwise than the first one, and what follows from it: it is the same caller's retry, another
 * caller's, another request, one of somewhere else, or one that is refused. Known from what is changed, and from nothing else.
 */
import { CLIENT_CERTIFICATE, COOKIE, CREDENTIAL, PROXY_USER } from '../../src/core/headers/carrier-kinds.ts'
import { CARRIERS } from '../../src/core/headers/carriers.ts'
import type { Carrier } from '../../src/core/headers/carriers.ts'
import { comparedHost } from '../../src/core/headers/host.ts'
import {
  certificateOf,
  COMPARED_NAMES,
  drawAround,
  drawLine,
  drawSemantics,
  drawUnknown,
  ENCODINGS,
  isNamed,
  isServed,
  isStable,
  isTaken,
  mustBeNamed,
  OVERRIDES,
  UTF8
} from './asks.ts'
import type { Ask, Content, Drawing, Line } from './asks.ts'
import type { Random } from '../chaos/random.ts'
import { bare, cased, changing, EXPIRED_TOKEN, HANDSHAKES, hex, neighbour, NOBODY, plain, UNREADABLE } from './values.ts'
import { countsSelectors, HOSTS } from './world.ts'

/** null: there is nothing of the kind to change. */
export type Change = (drawing: Drawing, ask: Ask) => Ask | null

export interface Mutation { readonly name: string, readonly change: Change }

export interface Flaw extends Mutation { readonly status: 400 | 401, readonly codes: readonly string[] }

function named (table: Readonly<Record<string, Change>>): Mutation[] {
  return Object.entries(table).map(([name, change]) => ({ name, change }))
}

// ---------------------------------------------------------------- small things

const counts = ({ place }: Ask): boolean => place.telling.carriers !== null
const selects = ({ place }: Ask): boolean => countsSelectors(place.telling)

function replaced (ask: Ask, line: Line, by: Partial<Line> | null): Ask {
  return { ...ask, lines: ask.lines.flatMap((each) => each !== line ? [each] : by === null ? [] : [{ ...each, ...by }]) }
}

/** Of the lines of which this is true one, changed; null: there is none. */
function onLine (may: (line: Line) => boolean, change: (drawing: Drawing, line: Line, ask: Ask) => Partial<Line> | null): Change {
  return (drawing, ask) => {
    const lines = ask.lines.filter(may)
    if (lines.length === 0) return null
    const line = drawing.random.pick(lines)
    return replaced(ask, line, change(drawing, line, ask))
  }
}

const isRotating = ({ carrier }: Line): boolean => carrier?.class === 'rotating'
const isCounted = ({ carrier }: Line): boolean => carrier !== null && carrier.class !== 'rotating'
const isFilled = ({ value }: Line): boolean => bare(value.text) !== ''
/** What may be moved to another name and be as good there. */
const isFree = (line: Line): boolean => isCounted(line) && line.value.plain && line.value.text !== '' && line.part === undefined

function served (drawing: Drawing, ask: Ask | null): Ask | null {
  return ask !== null && isServed(drawing.world, ask) ? ask : null
}

function where (may: (ask: Ask, drawing: Drawing) => boolean, change: Change): Change {
  return (drawing, ask) => may(ask, drawing) ? change(drawing, ask) : null
}

/** What names nobody may stand beside whoever is named, and wherever nobody has to be. */
const mayCarryMore = (ask: Ask, { world }: Drawing): boolean => !mustBeNamed(ask.place) || isNamed(world, ask)

function fresh ({ deck }: Drawing, ask: Ask, may: (carrier: Carrier) => boolean): Carrier {
  return deck.take((carrier) =>
    may(carrier) && !isTaken(ask.place, carrier.name) && !ask.lines.some(({ carrier: there }) => there === carrier))
}

/** It identifies nothing there, and its name is compared. */
function isHostCompared ({ place: { preserve, telling } }: Ask): boolean {
  return !preserve && !telling.host
}

function atHost (ask: Ask, host: string): Ask {
  return { ...ask, host, hostText: host }
}

function withoutPort (host: string): string {
  return host.replace(/:\d+$/, '')
}

/** What of a host is compared (docs/reference/http.md): its name; null for an address and for `localhost`, which are none. */
function askedName (host: string): string | null {
  const name = withoutPort(host)
  return ADDRESSES.some((address) => withoutPort(address) === name) ? null : name
}

const ADDRESSES = ['10.0.0.7:8080', '10.0.0.8', '127.0.0.1:3000', '[::1]:8080', '[fe80::7]', 'localhost', 'localhost:8080'] as const

// ---------------------------------------------------------------- the same caller's retry

function anewEach (may: (line: Line) => boolean): Change {
  return ({ random }, ask) =>
    ask.lines.some(may) ? { ...ask, lines: ask.lines.map((line) => may(line) ? { ...line, value: line.value.again(random) } : line) } : null
}

const hasPort = (host: string): boolean => /:\d+$/.test(host)
const HOST_SPELLINGS: ReadonlyArray<(host: string) => string> = [
  (host) => host.toUpperCase(),
  // An address in brackets has no root to end in.
  (host) => host.startsWith('[') ? host : host.replace(/(?=:|$)/, '.'),
  (host) => hasPort(host) ? host : `${host}:80`,
  (host) => hasPort(host) ? host : `${host}:443`
]

function contentAnew (change: (drawing: Drawing, content: Content, ask: Ask) => Partial<Content> | null): Change {
  return (drawing, ask) => {
    const by = change(drawing, ask.content, ask)
    return by === null ? null : { ...ask, content: { ...ask.content, ...by } }
  }
}

export const SAME: readonly Mutation[] = named({
  'nothing at all': (_, ask) => ask,
  'other spelling': (_, ask) => ({ ...ask, spelled: true }),
  'credentials written otherwise, signatures and tokens made anew': anewEach((line) => isCounted(line) || line.part === true),
  'rotating carriers changed': where(counts, anewEach(isRotating)),
  'a rotating carrier more': where(mayCarryMore, (drawing, ask) => {
    const carrier = fresh(drawing, ask, ({ class: cls }) => cls === 'rotating')
    return { ...ask, lines: [...ask.lines, drawLine(drawing, ask.place, carrier)] }
  }),
  'a rotating carrier less': onLine(isRotating, () => null),
  'cookies on two lines': where(
    ({ place: { telling } }) => telling.cookie !== undefined,
    (_, ask) => ({ ...ask, around: [...ask.around, ['Cookie', 'more=cookies']] })
  ),
  'a rotating carrier twice': (_, ask) => ({
    ...ask,
    lines: ask.lines.flatMap((line) =>
      isRotating(line) && line.carrier?.what !== COOKIE ? [line, { ...line, value: changing('again') }] : [line])
  }),
  'other fields around': ({ random }, ask) => ({ ...ask, around: drawAround(random) }),
  'an unknown name beside what is known': where(mayCarryMore, ({ random }, ask) => ({
    ...ask,
    unknown: [...ask.unknown.filter(() => random.chance(0.3)), drawUnknown(random, ask.place)]
  })),
  'another spelling of the host': ({ random }, ask) => ({ ...ask, hostText: random.pick(HOST_SPELLINGS)(ask.host) }),
  'another port of the host': where(
    isHostCompared,
    ({ random }, ask) => atHost(
      ask,
      random.pick(['', ':8080', ':8443', ':65535'].map((port) => `${withoutPort(ask.host)}${port}`).filter((host) => host !== ask.host))
    )
  ),
  'another address of the gateway': where(
    (ask) => isHostCompared(ask) && ask.place.hosts === null && askedName(ask.host) === null,
    ({ random }, ask) => atHost(ask, random.pick(ADDRESSES.filter((host) => host !== ask.host)))
  ),
  'the target in its absolute form': (_, ask) => ({ ...ask, absolute: !ask.absolute }),
  'UTF-8 said otherwise': contentAnew(({ random }, { kind, parameters }) =>
    ['json', 'form', 'text'].includes(kind) && (UTF8 as readonly string[]).includes(parameters) ? { parameters: random.pick(UTF8) } : null),
  'the media type in other letters': contentAnew(({ random }, { type }) => ({ type: cased(random, type) })),
  'another boundary': contentAnew(({ random }, { kind }, { place: { compared } }) =>
    kind === 'multipart' && compared.body === 'auto' ? { boundary: hex(random, 8, 20) } : null),
  'the coding in other letters': contentAnew(({ random }, { encoding }) => ({
    encoding: random.pick(encoding === null
      ? ['identity', 'Identity']
      : [encoding.toUpperCase(), encoding.replace(/(?<!x-)gzip/, 'x-gzip'), `identity,${encoding}`])
  })),
  'JSON written otherwise': where(
    ({ place: { compared }, content }) => compared.body === 'json' && content.kind === 'json',
    contentAnew(({ random }, { fields, wide }) => ({ fields: random.shuffled(fields), wide: !wide }))
  ),
  'a member that its route leaves out': where(
    ({ place: { compared }, content }) => compared.members === 'ignore' && content.kind === 'json',
    contentAnew(({ random }, { fields }) => {
      const rest = fields.filter(([name]) => name !== 'trace')
      return {
        fields: rest.length < fields.length && random.chance(0.3) ? rest : random.shuffled([...rest, ['trace', hex(random, 5, 8)] as const])
      }
    })
  ),
  'members that its route does not name': where(
    ({ place: { compared }, content }) => compared.members === 'only' && content.kind === 'json',
    contentAnew(({ random }, { fields }) => ({
      fields: random.shuffled([...fields.filter(([name]) => name === 'amount' || random.chance(0.3)), ['more', hex(random, 1, 4)] as const])
    }))
  ),
  'the query in another order': where(
    ({ place: { compared } }) => compared.unordered,
    ({ random }, ask) => ({ ...ask, query: random.shuffled(ask.query) })
  ),
  'another wish for the answer': ({ random }, ask) => ({
    ...ask,
    prefers: random.pick(['return=minimal', 'return=representation, wait=10', 'wait=5'])
  }),
  'the inbox asked for, or not': where(({ place: { mode } }) => mode === 'async', (_, ask) => ({ ...ask, deferred: !ask.deferred })),
  'what its scope does not name': where((ask) => !counts(ask), (drawing, ask) => {
    const { random, deck } = drawing
    const isSelector = (cls: string | undefined): boolean => cls === 'selector' && selects(ask)
    const mayChange = (line: Line): boolean =>
      line.part === undefined && !isSelector(line.carrier?.class) && !(ask.place.compared.whole && COMPARED_NAMES.has(line.name))
    const lines = ask.lines
      .filter((line) => !mayChange(line) || random.chance(0.6))
      .map((line) => mayChange(line) && random.chance(0.7) ? { ...line, value: line.value.other(random) } : line)
    const carrier = deck.take(({ name, class: cls }) =>
      !isSelector(cls) && !COMPARED_NAMES.has(name) && !isTaken(ask.place, name) && !lines.some((line) => line.name === name))
    return {
      ...ask,
      lines: [...lines, drawLine(drawing, ask.place, carrier)],
      certificate: ask.certificate === null || random.chance(0.5) ? ask.certificate : null
    }
  }),
  'what its route does not compare': (drawing, ask) => {
    const { any, whole } = ask.place.compared
    if (any && whole) return null
    return changedBy(drawing, any ? OF_THE_WHOLE : [...OF_THE_WHOLE, ...OF_ANY], ask)
  },
  'an extra field that nobody compares': where(
    ({ place: { compared } }) => !compared.extra,
    ({ random }, ask) => ({ ...ask, around: [...ask.around.filter(([name]) => name !== 'X-Extra'), ['X-Extra', hex(random, 1, 3)]] })
  )
})

/** By the first of them, in an order that is drawn, that changes anything. */
export function changedBy (drawing: Drawing, mutations: readonly Mutation[], ask: Ask): Ask | null {
  for (const { change } of drawing.random.shuffled(mutations)) {
    const changed = change(drawing, ask)
    if (changed !== null) return changed
  }
  return null
}

// ---------------------------------------------------------------- another caller

export const CALLER: readonly Mutation[] = named({
  'another value': where(
    counts,
    onLine((line) => isCounted(line) && isFilled(line), ({ random }, { value }) => ({ value: value.other(random) }))
  ),
  'another value of a selector': where(
    selects,
    onLine((line) => line.carrier?.class === 'selector', ({ random }, { value }) => ({ value: value.other(random) }))
  ),
  'a stable carrier more': where(counts, (drawing, ask) => {
    const carrier = fresh(drawing, ask, ({ class: cls }) => cls === 'stable')
    return served(drawing, { ...ask, lines: [...ask.lines, drawLine(drawing, ask.place, carrier)] })
  }),
  'a selector more': where(selects, (drawing, ask) => ({
    ...ask,
    lines: [...ask.lines, drawLine(drawing, ask.place, fresh(drawing, ask, ({ class: cls }) => cls === 'selector'))]
  })),
  'a carrier less': where(
    counts,
    (drawing, ask) => served(drawing, onLine((line) => isCounted(line) && line.part === undefined, () => null)(drawing, ask))
  ),
  'nobody in its place': where(({ place: { telling } }) => telling.carriers === 'public', (_, ask) => {
    const lines = ask.lines.filter((line) => line.part === true || (!isStable(line) && !isRotating(line)))
    return lines.some(isStable) || !(ask.lines.some(isStable) || ask.certificate !== null)
      ? null
      : { ...ask, lines, certificate: null, unknown: [] }
  }),
  'a proxy that names nobody': where(counts, (drawing, ask) => served(
    drawing,
    onLine(
      (line) => isStable(line) && isFilled(line) && (line.carrier?.what === PROXY_USER || line.carrier?.what === CLIENT_CERTIFICATE),
      () => ({ value: NOBODY })
    )(drawing, ask)
  )),
  'an empty selector': where(
    selects,
    onLine((line) => line.carrier?.class === 'selector' && isFilled(line) && line.part === undefined, () => ({ value: plain('') }))
  ),
  'the value under another name': where(counts, (drawing, ask) => served(drawing, onLine(isFree, (_, line) => {
    const carrier = fresh(drawing, ask, ({ name, class: cls, what }) =>
      cls === line.carrier?.class && what !== CREDENTIAL && !(cls === 'selector' && COMPARED_NAMES.has(name)))
    return { name: carrier.name, carrier }
  })(drawing, ask))),
  'two values swapped': where(counts, ({ random }, ask) => {
    const [one, other] = random.shuffled(ask.lines.filter(isFree))
    if (one === undefined || other === undefined || one.value.text === other.value.text) return null
    return replaced(replaced(ask, one, { value: other.value }), other, { value: one.value })
  }),
  'a character from one value in another': where(counts, ({ random }, ask) => {
    const [one, other] = random.shuffled(ask.lines.filter(isFree))
    const [text, cut] = [bare(one?.value.text.slice(0, -1) ?? ''), one?.value.text.slice(-1) ?? '']
    if (one === undefined || other === undefined || text === '' || bare(cut) === '') return null
    return replaced(replaced(ask, one, { value: plain(text) }), other, { value: plain(`${cut}${other.value.text}`) })
  }),
  'the end of a name before a shorter name\'s value': where(counts, (drawing, ask) => {
    const pairs = CARRIERS.flatMap((shorter) => shorter.class === 'rotating' || shorter.what === CREDENTIAL
      ? []
      : ask.lines
        .filter((line) =>
          isFree(line) &&
          line.name !== shorter.name &&
          line.name.startsWith(shorter.name) &&
          !isTaken(ask.place, shorter.name) &&
          !ask.lines.some(({ carrier }) => carrier === shorter))
        .map((line) => ({ line, shorter })))
    if (pairs.length === 0) return null
    const { line, shorter } = drawing.random.pick(pairs)
    return served(drawing, replaced(ask, line, {
      name: shorter.name,
      carrier: shorter,
      value: plain(`${line.name.slice(shorter.name.length)}${line.value.text}`)
    }))
  }),
  'one value that holds the next name and its value': where(counts, (drawing, ask) => {
    const counted = ask.lines.filter(isCounted).toSorted((one, other) => one.name < other.name ? -1 : 1)
    const pairs = counted.flatMap((line, at) =>
      counted.slice(at + 1, at + 2).filter((next) => isFree(line) && isFree(next)).map((next) => ({ line, next })))
    if (pairs.length === 0) return null
    const { line, next } = drawing.random.pick(pairs)
    return served(drawing, replaced(replaced(ask, next, null), line, { value: plain(`${line.value.text}${next.name}${next.value.text}`) }))
  }),
  'a name with an underscore': where(counts, (drawing, ask) => served(
    drawing,
    onLine(
      (line) => isCounted(line) && line.part === undefined && line.name.includes('-'),
      ({ random }, { name }) => ({ name: random.chance(0.5) ? name.replaceAll('-', '_') : name.replace('-', '_') })
    )(drawing, ask)
  )),
  'another client certificate': where((ask) => counts(ask) && ask.certificate !== null, (drawing, ask) => {
    const { random } = drawing
    const next = random.chance(0.3) ? null : random.chance(0.3) ? neighbour(random, ask.certificate ?? '') : certificateOf(random)
    return served(drawing, { ...ask, certificate: next })
  }),
  'another host': where(({ place: { preserve, telling } }) => preserve || telling.host, toAnotherHost),
  'another host that a proxy was asked for': where(({ place: { preserve, telling } }, { world }) =>
    world.trusted && (preserve || telling.host), forwardedFrom),
  'another value of a part': onLine((line) => line.part === true, ({ random }, { value }) => ({ value: value.other(random) })),
  'an optional part more': (drawing, ask) => {
    const { random } = drawing
    const { header } = ask.place.telling
    if (header?.optional !== true || ask.lines.some(({ name }) => name === header.name.toLowerCase())) return null
    const carrier = CARRIERS.find(({ name }) => name === header.name.toLowerCase()) ?? null
    return {
      ...ask,
      lines: [
        ...ask.lines,
        { name: header.name.toLowerCase(), carrier, part: true, value: plain(random.chance(0.4) ? '' : hex(random, 1, 5)) }
      ]
    }
  },
  'an optional part less': (drawing, ask) => {
    const { header } = ask.place.telling
    return header?.optional === true
      ? onLine((line) => line.part === true && line.name === header.name.toLowerCase(), () => null)(drawing, ask)
      : null
  }
})

function toAnotherHost ({ random }: Drawing, ask: Ask): Ask | null {
  const others = (ask.place.hosts ?? HOSTS).filter((host) => host !== ask.host)
  return others.length === 0 ? null : atHost(ask, random.pick(others))
}

function forwardedFrom ({ random }: Drawing, ask: Ask): Ask {
  const host = random.pick(HOSTS.filter((name) => comparedHost(name) !== '' && comparedHost(name) !== comparedHost(ask.host)))
  return { ...ask, proxied: [random.pick([['X-Forwarded-Host', host], ['Forwarded', `for=192.0.2.1; Host="${host}"`]] as const)] }
}

// ---------------------------------------------------------------- another request

/** Compared where anything is. */
const OF_ANY: readonly Mutation[] = named({
  'another host that a proxy was asked for': where(isHostCompared, forwardedFrom),
  'another method': ({ random }, ask) => ({ ...ask, method: random.pick(ask.place.methods.filter((method) => method !== ask.method)) }),
  'a method that overrides': ({ random }, ask) => {
    const [there] = ask.meaning.filter(([name]) => (OVERRIDES as readonly string[]).includes(name))
    if (there === undefined) return { ...ask, meaning: [...ask.meaning, [random.pick(OVERRIDES), random.pick(['PATCH', 'PUT', 'DELETE'])]] }
    const rest = ask.meaning.filter((field) => field !== there)
    return { ...ask, meaning: random.chance(0.5) ? rest : [...rest, [there[0], 'DELETE']] }
  },
  'another target': ({ random }, ask) => ({
    ...ask,
    segment: ask.place.kind === 'exact' ? ask.segment : neighbourSegment(random, ask.segment),
    query: ask.place.kind === 'exact' || random.chance(0.3) ? [...ask.query, `e=${hex(random, 1, 3)}`] : ask.query
  }),
  'a shorter query': ({ random }, ask) => ask.query.length === 0
    ? null
    : { ...ask, query: random.chance(0.5) ? ask.query.slice(1) : [...ask.query.slice(1), `${ask.query[0]}0`] },
  'another name of a host': where(isHostCompared, ({ random }, ask) => {
    const others = (ask.place.hosts ?? HOSTS).filter((host) => askedName(host) !== askedName(ask.host))
    return others.length === 0 ? null : atHost(ask, random.pick(others))
  })
})

function neighbourSegment (random: Random, segment: string): string {
  return random.pick([`${segment}0`, hex(random, 7, 9), /[a-f]/.test(segment) ? segment.toUpperCase() : `${segment}1`])
}

/** Compared where a whole request is. */
const OF_THE_WHOLE: readonly Mutation[] = named({
  'another media type': contentAnew(({ random }, { kind, type }, { place: { sender } }) =>
    sender.body !== undefined || kind === 'none' ? null : { type: random.pick([`${type}2`, 'application/octet-stream2']) }),
  'another charset': contentAnew(({ random }, { kind, parameters }) => kind === 'multipart' || kind === 'none'
    ? null
    : {
        parameters:
          `${parameters.includes('version') ? '; version=2' : ''}; charset=${random.pick(['iso-8859-1', 'utf-16', 'windows-1252'])}`
      }),
  'another parameter of the media type': contentAnew(({ random }, { kind, parameters }) => kind === 'none'
    ? null
    : { parameters: parameters.includes('version') ? '; version=11' : `${parameters}; profile="${hex(random, 1, 3)}"` }),
  'another coding': contentAnew(({ random }, { encoding }) => ({
    encoding: encoding !== null && random.chance(0.3) ? null : random.pick(ENCODINGS.filter((other) => other !== encoding))
  })),
  'a field that changes what is meant': ({ random }, ask) => {
    const { meaning, place } = ask
    const semantics = meaning.filter(([name]) => !(OVERRIDES as readonly string[]).includes(name))
    const [there] = semantics
    if (there === undefined) return { ...ask, meaning: [...meaning, [drawSemantics(random, place), hex(random, 1, 4)]] }
    const rest = meaning.filter((field) => field !== there)
    return { ...ask, meaning: random.chance(0.3) ? rest : [...rest, [there[0], neighbour(random, there[1])]] }
  },
  'a preference that lasts': ({ random }, ask) => ({
    ...ask,
    meaning: [...ask.meaning, ['Prefer', random.pick(['handling=strict', 'tx=rollback', 'resolution=merge-duplicates'])]]
  }),
  'another body': contentAnew(({ random }, { kind, fields }, { place: { compared } }) => kind === 'none'
    ? null
    : {
        fields: compared.members !== 'only' && random.chance(0.5)
          ? [...fields, ['more', hex(random, 1, 3)]]
          : fields.map(([name, value], index) => [name, index === 0 ? neighbour(random, value) : value] as const)
      }),
  'no body': contentAnew((_, { kind }, { place: { sender } }) => sender.body !== undefined || kind === 'none' ? null : { kind: 'none' })
})

export const REQUEST: readonly Mutation[] = [
  ...OF_ANY.map(({ name, change }) => ({ name, change: where(({ place: { compared } }) => compared.any, change) })),
  ...OF_THE_WHOLE.map(({ name, change }) => ({ name, change: where(({ place: { compared } }) => compared.whole, change) })),
  ...named({
    'a selector that no scope counts': where((ask) => !selects(ask) && ask.place.compared.whole, (drawing, ask) => {
      const carrier = fresh(drawing, ask, ({ name }) => COMPARED_NAMES.has(name))
      return { ...ask, lines: [...ask.lines, drawLine(drawing, ask.place, carrier)] }
    }),
    'a field that its route compares': where(
      ({ place: { compared } }) => compared.extra,
      ({ random }, ask) => ({
        ...ask,
        meaning: [...ask.meaning.filter(([name]) => name !== 'X-Extra'), ['X-Extra', `${hex(random, 1, 3)}!`]]
      })
    )
  })
]

// ---------------------------------------------------------------- elsewhere

export const ELSEWHERE: readonly Mutation[] = named({
  'another key': ({ random }, ask) => ({ ...ask, key: random.pick([`${ask.key}0`, `0${ask.key}`, ask.key.toUpperCase()]) }),
  'the other one of two routes': ({ world }, ask) => {
    const { place } = ask
    const twin = world.places.find((other) => other.path === place.path && other.name !== place.name)
    if (twin === undefined || !twin.methods.includes(ask.method) || twin.file !== place.file) return null
    const [host = ''] = twin.hosts ?? []
    return { ...ask, place: twin, host, hostText: host }
  }
})

// ---------------------------------------------------------------- what cannot be told apart

const SCOPE_MISSING = { status: 400, codes: ['scope-missing'] } as const
/** Of what its HTTP side refuses before anybody asks whose it is. */
const TWICE = { status: 400, codes: ['scope-missing', 'bad-request'] } as const

/** Nobody is named any more. */
function unnamed (drawing: Drawing, ask: Ask): Ask | null {
  const bare = { ...ask, lines: ask.lines.filter((line) => line.part === true || !isStable(line)), certificate: null, unknown: [] }
  return mustBeNamed(ask.place) && !isNamed(drawing.world, bare) ? bare : null
}

function flaws (said: Pick<Flaw, 'status' | 'codes'>, table: Readonly<Record<string, Change>>): Flaw[] {
  return named(table).map((each) => ({ ...each, ...said }))
}

const isOfChange = ({ carrier, part }: Line): boolean => carrier?.what === CREDENTIAL && part === undefined

export const FLAWS: readonly Flaw[] = [
  ...flaws(TWICE, {
    'a carrier on two lines': where(selects, ({ random }, ask) => {
      const lines = ask.lines.filter((line) => isCounted(line) && line.part === undefined)
      if (lines.length === 0) return null
      const { name, value } = random.pick(lines)
      return {
        ...ask,
        wrong: [[random.chance(0.3) ? name.replace('-', '_') : name, random.chance(0.5) ? value.text : value.other(random).text]]
      }
    })
  }),
  ...flaws(SCOPE_MISSING, {
    'an empty carrier': where(counts, (drawing, ask) => {
      const { random } = drawing
      const there = ask.lines.filter((line) =>
        isStable(line) && line.part === undefined && line.carrier?.what !== PROXY_USER && line.carrier?.what !== CLIENT_CERTIFICATE)
      const carrier = fresh(drawing, ask, ({ class: cls, what }) => cls === 'stable' && what !== PROXY_USER && what !== CLIENT_CERTIFICATE)
      const [line] = there.length === 0 ? [drawLine(drawing, ask.place, carrier)] : [random.pick(there)]
      if (line === undefined) return null
      const text = line.carrier?.what === CREDENTIAL ? random.pick(['', ' ', 'Bearer', 'Basic ', 'token  ']) : random.pick(['', ' '])
      return { ...ask, lines: [...ask.lines.filter((each) => each !== line), { ...line, value: { ...plain(text), plain: false } }] }
    }),
    'rotating carriers alone': where(counts, (drawing, ask) => {
      const bare = unnamed(drawing, ask)
      if (bare === null || bare.lines.some(isRotating)) return bare
      return { ...bare, lines: [...bare.lines, drawLine(drawing, ask.place, fresh(drawing, bare, ({ class: cls }) => cls === 'rotating'))] }
    }),
    'nobody where somebody is asked for': where(({ place: { telling } }) => telling.carriers === 'credential', unnamed),
    'a name that nobody knows, alone': where(counts, (drawing, ask) => {
      const bare = unnamed(drawing, ask)
      return bare === null
        ? null
        : { ...bare, lines: bare.lines.filter((line) => !isRotating(line)), unknown: [drawUnknown(drawing.random, ask.place)] }
    }),
    'a look-alike of a carrier, alone': where(counts, (drawing, ask) => {
      const bare = unnamed(drawing, ask)
      if (bare === null) return null
      const carrier = fresh(drawing, bare, ({ class: cls, name, what }) => cls === 'stable' && name.includes('-') && what !== CREDENTIAL)
      return {
        ...bare,
        lines: [...bare.lines, { ...drawLine(drawing, ask.place, carrier), name: carrier.name.replace('-', '_'), value: plain('alice') }]
      }
    }),
    'a proxy that nobody trusts, alone': where((ask, { world }) => counts(ask) && !world.trusted, (drawing, ask) => {
      const bare = unnamed(drawing, ask)
      if (bare === null) return null
      return {
        ...bare,
        lines: [
          ...bare.lines,
          drawLine(drawing, ask.place, fresh(
            drawing,
            bare,
            ({ name }) => name === 'x-forwarded-user' || name === 'x-forwarded-email' || name === 'x-forwarded-client-cert'
          ))
        ].map((line) => line.value.text === '' && isStable(line) ? { ...line, value: plain('alice') } : line)
      }
    }),
    'a signature without a word on who may replay': where(
      (ask) => counts(ask) && ask.place.signing === null,
      withCredential(({ random }) => random.pick([
        'AWS AKID:sig=',
        'Signature keyId="k",signature="a"',
        'HMAC-SHA256 Credential=id&Signature=aa',
        'AWS4-HMAC-SHA256 Credential=AK/20260101/eu/s3/aws4_request, SignedHeaders=host, Signature=aa'
      ]))
    ),
    'a signature of nobody': where(counts, withCredential(({ random }) => random.pick(UNREADABLE))),
    'a handshake': where(counts, withCredential(({ random }) => random.pick(HANDSHAKES))),
    'a part missing': (drawing, ask) => {
      const { header, cookie, claim } = ask.place.telling
      const needed = [
        ...header?.optional === false ? [header.name.toLowerCase()] : [],
        ...cookie?.optional === false ? ['cookie'] : [],
        ...claim?.optional === false ? ['authorization'] : []
      ]
      return needed.length === 0
        ? null
        : onLine(({ name, part }) => part === true && name === drawing.random.pick(needed), () => null)(drawing, ask)
    },
    'an empty part': (drawing, ask) => {
      const { header, cookie } = ask.place.telling
      if (header?.optional === false) {
        return onLine(
          ({ name, part }) => part === true && name === header.name.toLowerCase(),
          () => ({ value: { ...plain(drawing.random.pick(['', ' '])), plain: false } })
        )(drawing, ask)
      }
      return cookie?.optional === false
        ? onLine(({ name, part }) => part === true && name === 'cookie', () => ({ value: { ...plain('a=b; sid='), plain: false } }))(
          drawing,
          ask
        )
        : null
    },
    'a part twice': ({ random }, ask) => {
      const { header } = ask.place.telling
      const there = ask.lines.find(({ name, part }) =>
        part === true && (name === header?.name.toLowerCase() || (name === 'cookie' && ask.place.telling.cookie !== undefined)))
      if (there === undefined) return null
      if (there.name === 'cookie') {
        return there.value.text.split(/[; ]+/).some((pair) => pair.startsWith('sid='))
          ? { ...ask, wrong: [['Cookie', 'sid=another']] }
          : null
      }
      return {
        ...ask,
        wrong: [[random.chance(0.5) ? there.name : there.name.replaceAll('-', '_'), random.chance(0.5) ? there.value.text : 'another']]
      }
    }
  }),
  ...flaws({ status: 401, codes: ['token-invalid'] }, {
    'a token that is over': (_, ask) => {
      const { claim } = ask.place.telling
      if (claim === undefined) return null
      const rest = ask.lines.filter(({ name }) => name !== 'authorization')
      return {
        ...ask,
        lines: [
          ...rest,
          {
            name: 'authorization',
            part: true,
            carrier: CARRIERS.find(({ name }) => name === 'authorization') ?? null,
            value: { ...plain(EXPIRED_TOKEN), plain: false }
          }
        ]
      }
    }
  }),
  ...flaws({ status: 401, codes: ['signature-invalid'] }, {
    'a signature that is another\'s': where(
      ({ place: { signing } }) => signing !== null && signing !== 'by-key-id',
      (_, ask) => ({ ...ask, forged: true })
    )
  }),
  ...flaws({ status: 400, codes: ['bad-request'] }, {
    'two media types': (_, ask) => ask.content.kind === 'none' ? null : { ...ask, wrong: [['Content-Type', 'text/plain']] },
    'two hosts': ({ random }, ask) => ({ ...ask, elsewhere: random.pick(HOSTS.filter((host) => host !== ask.host)) }),
    'two codings': (_, ask) => ask.content.encoding === null ? null : { ...ask, wrong: [['Content-Encoding', 'br']] }
  }),
  ...flaws({ status: 400, codes: ['key-invalid'] }, {
    'two keys': (_, ask) =>
      ask.place.sender.from.startsWith('header:') ? { ...ask, wrong: [[ask.place.sender.from.slice('header:'.length), ask.key]] } : null
  })
]

/** Beside, or in the place of, whoever is named. */
function withCredential (text: (drawing: Drawing) => string): Change {
  return (drawing, ask) => {
    const there = ask.lines.find(isOfChange)
    const carrier = there?.carrier ?? fresh(drawing, ask, ({ what }) => what === CREDENTIAL)
    const line: Line = { name: carrier.name, carrier, value: { ...plain(text(drawing)), plain: false } }
    return { ...ask, lines: [...ask.lines.filter((each) => each !== there), line] }
  }
}
