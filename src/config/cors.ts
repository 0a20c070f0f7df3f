/** The `cors` block: its schema, its checks, and its policy. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import type { CorsPolicy } from '../core/headers/cors.ts'
import { mistake } from './read/problem.ts'
import type { Mistake } from './read/problem.ts'
import { duration, shape } from './read/schema-words.ts'
import { parseDuration } from './read/units.ts'

export const Cors = Type.Object({
  origins: Type.Array(Type.String({ minLength: 1, maxLength: 512 }), {
    minItems: 1,
    maxItems: 256,
    uniqueItems: true,
    description:
      'Origins whose scripts may read them: `https://app.example`, with the port unless it is the default. Or `*` alone, for all.'
  }),
  credentials: Type.Boolean({
    default: false,
    description: 'Whether scripts may read answers to requests with cookies or other credentials of the browser. Not with `*`.'
  }),
  maxAge: duration('10m', 'How long a browser remembers the answer to a preflight that the gateway itself answers.')
}, { ...shape, description: 'Which pages of other origins may read the gateway\'s own answers: problems, the inbox\'s 202, message states, issued keys. Absent: no CORS headers are added, so a proxy in front can add them. Upstreams set their own. See docs/guides/browsers.md.' })

export type CorsFile = Static<typeof Cors>

export function checkCors (cors: CorsFile | undefined): Mistake[] {
  if (cors === undefined) return []
  const { origins, credentials } = cors
  const all = origins.includes('*')
  return [
    ...(all && credentials
      ? [mistake(
          ['cors', 'credentials'],
          'cannot be true with origins ["*"]: browsers refuse it, and any page could read answers to your users\' cookies; name the origins'
        )]
      : []),
    ...(all && origins.length > 1 ? [mistake(['cors', 'origins'], 'has * and others: * must be alone, and means all')] : []),
    ...origins.flatMap((origin, index) => {
      const wrong = origin === '*' ? null : wrongOrigin(origin)
      return wrong === null ? [] : [mistake(['cors', 'origins', index], wrong)]
    })
  ]
}

const SCHEME = /^([a-z][a-z0-9+.-]*):\/\/(.*)$/i
const HOST = /^(?:\[[0-9a-f:.]+\]|[^\s[\]:/?#@\\*,]+)(?::[0-9]{1,5})?$/i

function wrongOrigin (text: string): string | null {
  if (text === 'null') return 'cannot be null: every sandboxed page and every file has that origin'
  if (/[\s,]/.test(text)) return 'has a space or a comma in it; write each origin as its own item'
  const [, scheme, rest = ''] = SCHEME.exec(text) ?? []
  if (scheme === undefined) return 'has no scheme; write https://app.example'
  if (rest.includes('*')) return 'has a wildcard, which browsers do not support; write each origin, or * alone'
  if (rest.includes('@')) return 'has credentials in it; an origin is scheme, host and port'
  if (/[/?#\\]/.test(rest)) return `has something after the host; write ${scheme}://${rest.split(/[/?#\\]/, 1)[0] ?? ''}`
  if (!HOST.test(rest) || !URL.canParse(text)) return 'is no origin; write https://app.example or http://localhost:3000'
  return null
}

/** The form that browsers send: lower case, the host in ASCII, without the default port. */
function asSent (origin: string): string {
  const { origin: known } = new URL(origin)
  return known === 'null' ? origin.toLowerCase() : known
}

/** `cors` has passed checkCors. */
export function corsOf (cors: CorsFile | undefined): CorsPolicy | null {
  if (cors === undefined) return null
  const { origins, credentials, maxAge } = cors
  return {
    origins: origins.includes('*') ? '*' : new Set(origins.map(asSent)),
    credentials,
    maxAgeSeconds: Math.floor((parseDuration(maxAge) ?? 0) / 1000)
  }
}
