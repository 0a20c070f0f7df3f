/** A scope in words: which field, cookie or claim names the caller, and never its value. */

/** Names come from clients. A longer one is cut. */
const NAME_SHOWN_MAX = 64

const WHOLE: Readonly<Record<string, string>> = {
  anonymous: 'no credential: callers without one share their keys',
  verified: 'a verified signature: all who can sign are one caller',
  host: 'the host',
  const: 'a fixed text, which all callers share',
  credential: 'its credential',
  public: 'its credential, if it has one',
  // Labels of the first rules.
  bearer: 'the Authorization header (bearer)',
  basic: 'the Authorization header (basic)',
  aws4: 'the key id in the Authorization header (aws4)',
  hawk: 'the key id in the Authorization header (hawk)',
  digest: 'the user in the Authorization header (digest)',
  oauth: 'the consumer key in the Authorization header (oauth)',
  'api-key': 'the X-Api-Key header'
}

const OF_KIND: Readonly<Record<string, (name: string) => string>> = {
  header: (name) => `the header ${name}`,
  cookie: (name) => `the cookie ${name}`,
  jwt: (name) => `the claim ${name} of its verified token`
}

/** `scope`: as core/scope/scope.ts makes it. Its digest is not shown. */
export function callerWords (scope: string): string {
  const label = scope.includes(':') ? scope.slice(0, scope.lastIndexOf(':')) : scope
  return label.split(',').map(partWords).join(' and ')
}

function partWords (part: string): string {
  if (Object.hasOwn(WHOLE, part)) return WHOLE[part] ?? ''
  const [, more] = /^\+([0-9]+)$/.exec(part) ?? []
  if (more !== undefined) return `${more} more fields`
  const [, kind = '', optional, name = ''] = /^([a-z]+)(\?)?:(.*)$/.exec(part) ?? []
  const shown = part.slice(0, NAME_SHOWN_MAX)
  if (!Object.hasOwn(OF_KIND, kind)) return `the header ${shown}`
  return `${OF_KIND[kind]?.(name.slice(0, NAME_SHOWN_MAX)) ?? ''}${optional === undefined ? '' : ', if it has one'}`
}
