/** Parses scopes (`credential`, `header:X-Tenant`, `jwt?:sub`) into their policies. */
import { SHARED } from '../../core/policy/policy.ts'
import type { CredentialPolicy, ScopePart, ScopePolicy } from '../../core/policy/policy.ts'
import { didYouMean } from '../read/nearest.ts'
import { printable } from '../read/problem.ts'
import type { Read } from '../read/problem.ts'
import { isToken } from './header-names.ts'

const CONST_MAX = 128
const WORDS = ['credential', 'public', SHARED, 'host', 'client-certificate'] as const
const KINDS = ['header', 'cookie', 'jwt', 'const'] as const

const CREDENTIAL: CredentialPolicy = { kind: 'credential', anonymous: false, cookies: 'refuse' }
const PUBLIC: CredentialPolicy = { kind: 'credential', anonymous: true, cookies: 'ignore' }

/** `written`: as in the file. Refuses a scope that does not distinguish callers, unless it is `public` or `shared`. */
export function readScope (written: string | readonly string[]): Read<ScopePolicy> {
  const list = typeof written === 'string' ? [written] : written
  if (list.length === 0) return { wrong: 'is empty, so all callers would share one set of keys; write `scope: shared` if they may' }
  const parts = list.map(readPart)
  const wrong = parts.flatMap((part) => 'wrong' in part ? [part.wrong] : [])
  if (wrong.length > 0) return { wrong: wrong.join('; ') }
  const values = parts.flatMap((part) => 'value' in part ? [part.value] : [])
  const whose = values.filter((part) => part.kind === 'credential')
  if (whose.length > 1) return { wrong: 'has credential or public more than once; one is enough' }
  const [only] = values
  if (values.length === 1 && only?.kind === 'credential') return { value: only }
  if (!list.includes(SHARED) && values.every(({ kind }) => kind === 'const' || kind === 'host')) {
    return { wrong: 'does not distinguish callers, so all callers would share one set of keys; write `scope: shared` if they may' }
  }
  return { value: { kind: 'parts', parts: values } }
}

/** A part with `?` after its kind may be absent. */
function readPart (text: string): Read<ScopePart> {
  switch (text) {
    case 'credential': return { value: CREDENTIAL }
    case 'public': return { value: PUBLIC }
    case 'host':
    case 'client-certificate': return { value: { kind: text } }
    case SHARED: return { value: { kind: 'const', value: SHARED } }
  }
  const [, kind, mark = '', name = ''] = /^([A-Za-z]+)(\??):(.*)$/.exec(text) ?? []
  const optional = mark === '' ? {} : { optional: true } as const
  switch (kind) {
    case 'header': return isToken(name) ? { value: { kind, name: name.toLowerCase(), ...optional } } : { wrong: `${text} names no header` }
    case 'cookie': return isToken(name) ? { value: { kind, name, ...optional } } : { wrong: `${text} names no cookie` }
    case 'jwt':
      return name.length > 0 && name.length <= CONST_MAX
        ? { value: { kind, claim: name, ...optional } }
        : { wrong: `${text} names no claim` }
    case 'const': {
      if (mark !== '') return { wrong: `${text}: a const part is never absent; write it without ?` }
      return name.length <= CONST_MAX ? { value: { kind, value: name } } : { wrong: `a const part has at most ${CONST_MAX} characters` }
    }
    default: return { wrong: `"${printable(text)}" is no scope; write credential, public, shared, host, client-certificate, header:NAME, cookie:NAME, jwt:CLAIM (header?:, cookie?:, jwt?: where it may be absent) or const:TEXT${didYouMean(kind ?? text, kind === undefined ? [...WORDS, ...KINDS] : KINDS)}` }
  }
}
