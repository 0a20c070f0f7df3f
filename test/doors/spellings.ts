/**
 * Whether a request that any server behind takes for a guarded one is ever unguarded. Paths and hosts are spelled in ways
 * that servers undo; servers are put together from what real ones do to a path, each habit written here anew.
 */
import { overridingMethods } from '../../src/core/headers/method-override.ts'
import { isHost } from '../../src/core/headers/host.ts'
import { compileRoutes } from '../../src/routing/match.ts'
import { guardedRoute } from '../harness/gateway.ts'
import { Chance } from '../simulation/chance.ts'

export interface SpellingResult {
  readonly spelled: number
  /** Of them, taken for a guarded one by at least one of their servers. */
  readonly reached: number
  readonly outcomes: ReadonlyMap<string, number>
  readonly violations: readonly string[]
}

const UNGUARDED = { path: '/*', methods: [], host: null, exact: false } as const
const HOST = 'api.example'
/** Guarded: everywhere, below a prefix, and for one host alone. */
const HOSTED = '/api/hosted'
const TARGETS = ['/v1/charges', '/v1/orders/7/capture', '/pay', '/pay/in/eur', HOSTED] as const
const PATTERNS = [['/v1/charges', null], ['/v1/orders/:id/capture', null], ['/pay/*', null], [HOSTED, HOST]] as const

/** What servers do to a path before they look for its handler. Each takes and gives characters that stand for bytes. */
type Habit = (path: string) => string
const HABITS: Readonly<Record<string, Habit>> = {
  'decodes escapes': (path) => path.replace(/%[0-9a-fA-F]{2}/g, (escape) => String.fromCharCode(Number.parseInt(escape.slice(1), 16))),
  'decodes letters and digits': (path) => path.replace(/%[0-9a-fA-F]{2}/g, (escape) => {
    const char = String.fromCharCode(Number.parseInt(escape.slice(1), 16))
    return /[A-Za-z0-9._~-]/.test(char) ? char : escape
  }),
  'takes backslashes for slashes': (path) => path.split('\\').join('/'),
  'drops parameters': (path) => path.split('/').map((segment) => segment.split(';', 1)[0] ?? '').join('/'),
  'drops all behind a semicolon': (path) => path.split(';', 1)[0] ?? '',
  'merges slashes': (path) => path.replace(/\/{2,}/g, '/'),
  'ends at a question mark': (path) => path.split('?', 1)[0] ?? '',
  'ends at a number sign': (path) => path.split('#', 1)[0] ?? '',
  'ends at a NUL': (path) => path.split('\0', 1)[0] ?? '',
  'ends at a line end': (path) => path.split(/[\r\n]/, 1)[0] ?? '',
  'drops control characters': (path) => Array.from(path).filter((char) => char.charCodeAt(0) > 31 && char.charCodeAt(0) !== 127).join(''),
  'trims blanks': (path) => path.trim(),
  'drops dots and blanks behind names': (path) =>
    path.split('/').map((segment) => /^\.{1,2}$/.test(segment) ? segment : segment.replace(/[. ]+$/, '')).join('/'),
  'takes an extension for a format': (path) => path.replace(/([^/.])\.[A-Za-z0-9]+(\/?)$/, '$1$2'),
  'drops a slash at the end': (path) => path.length > 1 ? path.replace(/\/+$/, '') : path,
  'knows no case': (path) => path.replace(/[A-Z]/g, (letter) => letter.toLowerCase()),
  'resolves dot segments': (path) => {
    const out: string[] = []
    for (const segment of path.split('/')) {
      if (segment === '..') out.pop()
      else if (segment !== '.') out.push(segment)
    }
    return `/${out.filter((segment, at) => at > 0 || segment !== '').join('/')}`
  },
  'takes two slashes for a host': (path) => /^\/\/[^/]*(\/.*)$/s.exec(path)?.[1] ?? path,
  'takes slashes for a host, however many': (path) => /^[/\\]{2,}[^/\\]+([/\\].*)$/s.exec(path)?.[1] ?? path,
  'takes a segment in brackets for a session': (path) => path.replace(/^(.*?)\/\((?:[A-Za-z]\([^()/]*\))+\)(?=\/)/s, '$1'),
  'takes a plus for a space': (path) => path.split('+').join(' '),
  'trims what is white': (path) => Buffer.from(
    Buffer.from(path, 'latin1').toString('utf8').replace(/^[\s\u0085\u200b]+|[\s\u0085\u200b]+$/g, ''),
    'utf8'
  ).toString('latin1'),
  'trims its segments': (path) => path.split('/').map((segment) => segment.trim()).join('/'),
  'opens the data of a file': (path) => path.replace(/::\$data$/i, ''),
  'opens what a directory is': (path) => path.replace(/:(?:\$i30)?:\$index_allocation(?=\/|$)/i, ''),
  'reads long UTF-8': (path) => path
    .replace(/[\xc0\xc1][\x80-\xbf]/g, (two) => String.fromCharCode(((two.charCodeAt(0) & 0x1f) << 6) | (two.charCodeAt(1) & 0x3f)))
    .replace(
      /\xe0[\x80-\x9f][\x80-\xbf]/g,
      (three) => String.fromCharCode(((three.charCodeAt(1) & 0x3f) << 6) | (three.charCodeAt(2) & 0x3f))
    ),
  'makes compatible characters one': (path) =>
    Buffer.from(Buffer.from(path, 'latin1').toString('utf8').normalize('NFKC'), 'utf8').toString('latin1')
}
const HABIT_NAMES = Object.keys(HABITS)
/** Of one server, in any order: a proxy and an application often do the same thing twice. */
const HABITS_MAX = 8
const SERVERS = 24

interface Server { readonly habits: readonly string[] }

function drawServer (chance: Chance): Server {
  return { habits: Array.from({ length: chance.whole(0, HABITS_MAX) }, () => chance.one(HABIT_NAMES)) }
}

/** The target whose handler it would call; null: another one's, or nobody's. */
export function executes ({ habits }: Server, path: string): string | null {
  const read = habits.reduce((now, habit) => HABITS[habit]?.(now) ?? now, path)
  return TARGETS.find((target) => target === read) ?? null
}

/** What writes a path in another way. Most are undone by a habit. */
type Spelling = (path: string, chance: Chance) => string
const at = (path: string, chance: Chance): number => chance.whole(0, path.length)
const inserted = (path: string, where: number, what: string): string => path.slice(0, where) + what + path.slice(where)
const escaped = (char: string): string =>
  Array.from(Buffer.from(char, 'latin1'), (byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
const FULL_WIDTH = 0xfee0
const SPELLINGS: readonly Spelling[] = [
  (path, chance) => {
    const where = chance.whole(1, Math.max(1, path.length - 1))
    return path.slice(0, where) + escaped(path[where] ?? '') + path.slice(where + 1)
  },
  (path, chance) => { const where = path.indexOf('%', at(path, chance)); return where === -1 ? path : inserted(path, where + 1, '25') },
  (path, chance) => {
    const where = path.indexOf('/', chance.whole(1, path.length))
    return where === -1
      ? path
      : path.slice(0, where) +
        chance.one(['\\', '%2f', '%2F', '%5c', '//', '/./', ';a/', '%c0%af', '/%20/../', '/x/../', '%252f', '\uff0f'].map((text) =>
          Buffer.from(text, 'utf8').toString('latin1'))) +
        path.slice(where + 1)
  },
  (path, chance) => inserted(path, at(path, chance), chance.one(['%00', '%0a', '%0d', '%09', '%0d%0a', '%7f', '%1f', '%20', '%0b', '%08'])),
  (path, chance) =>
    path +
    chance.one([
      '.', '..', '%20', '%2e', '. .', '%20.', '.%20', '/', '//', '/.', '/..', ';', ';x=y', '%3b', '?x', '%3fx', '#x',
      '%23', '.json', '.xml', '.do', '%2ejson', '.json;x', '.php/', '%00', '%00.png', '%0a', '.a.b', '+', '%2b',
      '%e2%80%a8', '%c2%85', '%ef%bb%bf', '%e2%80%8b', '::$DATA', '%3a%3a$data', ':$i30:$INDEX_ALLOCATION', '%c2%93'
    ]),
  (path, chance) =>
    chance.one([
      '/', '//x', '///x', '/////x', '/\\/x', '\\//x', '///api.example', '//api.example', '//api.example:80',
      '/\\api.example', '//x@api.example', '/(S(x))', '/(A(a)S(b))', '/%28S(x))', '/+', '/%20', '/%2f', '/.', '/x/..',
      '/;', '\\', '/%5c', '/%20/..', '/./', 'http://api.example', 'HTTP://API.EXAMPLE:80'
    ]) +
    path,
  (path, chance) => path.replace(chance.hit(0.5) ? /[a-z]/g : /[a-z]/, (letter) => letter.toUpperCase()),
  (path, chance) => {
    const where = chance.whole(1, Math.max(1, path.length - 1))
    const code = path.charCodeAt(where)
    return code > 0x20 && code < 0x7f && path[where] !== '%'
      ? path.slice(0, where) +
        Array.from(Buffer.from(String.fromCharCode(code + FULL_WIDTH), 'utf8'), (byte) => `%${byte.toString(16)}`).join('') +
        path.slice(where + 1)
      : path
  },
  (path, chance) => {
    const where = chance.whole(1, Math.max(1, path.length - 1))
    const code = path.charCodeAt(where)
    return code < 0x80 && path[where] !== '%'
      ? path.slice(0, where) +
        chance.one([
          `%${(0xc0 | (code >> 6)).toString(16)}%${(0x80 | (code & 0x3f)).toString(16)}`,
          `%e0%${(0x80 | (code >> 6)).toString(16)}%${(0x80 | (code & 0x3f)).toString(16)}`
        ]) +
        path.slice(where + 1)
      : path
  },
  (path, chance) => {
    const where = path.indexOf('/', chance.whole(1, path.length))
    return where === -1 ? path : inserted(path, where, chance.one(['.', '%20', ';x', '..', '%2e', '%20%20', '. ', ';%2f']))
  }
]
const SPELLED_MAX = 4

function spell (chance: Chance, target: string): string {
  let path = target
  for (let left = chance.whole(0, SPELLED_MAX); left > 0; left--) path = chance.one(SPELLINGS)(path, chance)
  return path
}

/** As clients write the one host that a route names; null: no line at all. */
const HOSTS = [
  HOST, HOST, HOST, 'API.EXAMPLE', 'api.example.', 'api.example:80', 'api.example:443', 'api.example:',
  'Api.Example.:8080', '', null, ' api.example', 'api.example\t', 'api%2eexample', 'api.example..', '\uff41pi.example',
  'x@api.example', 'api.example/x', 'api.example,other', 'other.example'
]

/** A server with one application has it for every name; one that looks does not mind case, port and a dot at the end. */
function hostReaches (host: string | null, target: string | null): boolean {
  if (target === null) return false
  if (target !== HOSTED) return true
  if (host === null || host.trim() === '') return true
  return host.trim().toLowerCase().replace(/:[0-9]*$/, '').replace(/\.$/, '') === HOST
}

/** Of a server that takes the path for a reference to another host. */
function hostTaken ({ habits }: Server, path: string): string | null {
  if (!habits.includes('takes two slashes for a host') && !habits.includes('takes slashes for a host, however many')) return null
  return /^\/[/\\]+(?:[^/\\]*@)?([^/\\]+)/.exec(path)?.[1] ?? null
}

const METHODS: ReadonlyArray<readonly [string, readonly string[]]> = [
  ['POST', []],
  ['POST', []],
  ['PUT', []],
  ['DELETE', []],
  ['GET', ['X-HTTP-Method-Override', 'POST']],
  ['PATCH', []]
]
const VIOLATIONS_MAX = 20

const matcher = compileRoutes([
  ...PATTERNS.map(([path, host]) => ({
    ...guardedRoute('http://127.0.0.1:1'),
    name: path,
    match: { path, methods: [], host, exact: false }
  })),
  { ...guardedRoute('http://127.0.0.1:1'), name: 'rest', match: UNGUARDED, idempotency: null }
])

export function playSpellings ({ seed, requests }: { readonly seed: number, readonly requests: number }): SpellingResult {
  const outcomes = new Map<string, number>()
  const violations: string[] = []
  let reached = 0
  for (let number = 0; number < requests && violations.length < VIOLATIONS_MAX; number++) {
    const chance = new Chance(seed, number)
    const target = spell(chance, chance.one(TARGETS))
    const host = chance.one(HOSTS)
    const [method, fields] = chance.one(METHODS)
    const outcome = decided(method, target, host, fields)
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    const [, authority = null] = /^https?:\/\/([^/?#\\]*)/i.exec(target) ?? []
    const path = target.replace(/^https?:\/\/[^/?#\\]*/i, '').split('?', 1)[0] ?? ''
    const server = Array.from({ length: SERVERS }, () => drawServer(chance))
      .find((each) => hostReaches(hostTaken(each, path) ?? host ?? authority, executes(each, path)))
    if (server === undefined) continue
    reached++
    if (outcome === 'unguarded') {
      violations.push(`seed ${seed}, spelling ${number}: ${method} ${JSON.stringify(target)} of ${JSON.stringify(host)} is not guarded, and a server that ${server.habits.join(', ')} takes it for ${executes(server, path)}`)
    }
  }
  return { spelled: requests, reached, outcomes, violations }
}

/** What the gateway does with it before it looks at its key. */
function decided (
  method: string,
  target: string,
  host: string | null,
  fields: readonly string[]
): 'guarded' | 'alike' | 'unguarded' | 'refused' {
  if (host !== null && !isHost(host)) return 'refused'
  const matched = matcher.match(method, target, host, overridingMethods(fields, target))
  if (matched.kind !== 'route') return matched.kind === 'refused' ? 'refused' : 'unguarded'
  if (matched.route.idempotency === null) return 'unguarded'
  return matched.alike ? 'alike' : 'guarded'
}
