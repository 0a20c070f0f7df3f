/** Scopes as they are written (`credential`, `header:X-Tenant`, `jwt:sub`), read into their policies. */
import type { ScopePart, ScopePolicy } from '../core/policy.ts'
import { TOKEN_PATTERN } from './schema-route.ts'

type Read<T> = { readonly value: T } | { readonly wrong: string }

const CONST_MAX = 128

/** `written`: as in the file. Refuses a scope in which nobody can be told apart, unless it is `public`. */
export function readScope (written: string | readonly string[]): Read<ScopePolicy> {
  if (written === 'credential') return { value: { kind: 'credential', anonymous: false, cookies: 'refuse' } }
  if (written === 'public') return { value: { kind: 'credential', anonymous: true, cookies: 'ignore' } }
  if (written === 'shared') return { value: { kind: 'parts', parts: [{ kind: 'const', value: 'shared' }] } }
  const list = typeof written === 'string' ? [written] : written
  if (list.length === 0) return { wrong: 'is empty, so all callers would share one set of keys; write `scope: shared` if they may' }
  const parts = list.map(readPart)
  const wrong = parts.flatMap((part) => 'wrong' in part ? [part.wrong] : [])
  if (wrong.length > 0) return { wrong: wrong.join('; ') }
  const values = parts.flatMap((part) => 'value' in part ? [part.value] : [])
  if (values.every(({ kind }) => kind === 'const')) return { wrong: 'says nothing about the caller, so all callers would share one set of keys; write `scope: shared` if they may' }
  return { value: { kind: 'parts', parts: values } }
}

export function isToken (text: string): boolean {
  return new RegExp(TOKEN_PATTERN).test(text)
}

function readPart (text: string): Read<ScopePart> {
  const [, kind, name = ''] = /^([A-Za-z]+):(.*)$/.exec(text) ?? []
  switch (kind) {
    case 'header': return isToken(name) ? { value: { kind, name: name.toLowerCase() } } : { wrong: `${text} names no header` }
    case 'cookie': return isToken(name) ? { value: { kind, name } } : { wrong: `${text} names no cookie` }
    case 'jwt': return name.length > 0 && name.length <= CONST_MAX ? { value: { kind, claim: name } } : { wrong: `${text} names no claim` }
    case 'const': return name.length <= CONST_MAX ? { value: { kind, value: name } } : { wrong: `a const part has at most ${CONST_MAX} characters` }
    default: return { wrong: `${JSON.stringify(text)} is no scope; write credential, public, shared, header:NAME, cookie:NAME, jwt:CLAIM or const:TEXT` }
  }
}
