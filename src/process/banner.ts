/** The lines that `serve` prints when it listens: URL, stores, routes with their scopes, and notes. They contain no secrets. */
import type { Config } from '../config/config.ts'
import { routeWarnings } from '../config/warnings.ts'
import { scopeSentences } from '../config/routes/scope-words.ts'
import { partText } from '../core/protocol/aspects.ts'
import { SHARED } from '../core/policy/policy.ts'
import type { IdempotencyPolicy, Route } from '../core/policy/policy.ts'
import { signingOf } from '../core/headers/signature.ts'
import type { Signing } from '../core/headers/signature.ts'
import { VERSION } from '../version.ts'

/** `workers`: the number of processes that serve. */
export function banner (config: Config, where: readonly string[], url: string, adminUrl: string, workers = 1): string[] {
  return [
    `onceway ${VERSION} listens on ${url}   (admin: ${adminUrl})`,
    ...where.map((line, index) => `${index === 0 ? 'stores   ' : '         '} ${line}`),
    ...(workers > 1 ? [`workers   ${workers} processes`] : []),
    ...config.routes.map((route, index) => `${index === 0 ? 'routes   ' : '         '} ${routeLine(route)}`),
    ...scopeSentences(config.routes).map((sentence, index) => `${index === 0 ? 'scopes   ' : '         '} ${sentence}`),
    ...routeWarnings(config).map((sentence) => `note      ${sentence}`)
  ]
}

function routeLine ({ name, match, upstream, idempotency }: Route): string {
  const methods = match.methods.length === 0 ? 'any method' : match.methods.join(',')
  const host = match.host === null ? '' : `${match.host} `
  const what = idempotency === null
    ? 'passes through'
    : `${modeLine(idempotency)}, profile ${idempotency.profile}, scope ${scopeLine(idempotency)}${idempotency.drop === null ? `, unknown: ${idempotency.unknown}` : ''}${idempotency.key.required ? ', key required' : ''}${SIGNING[signingOf(idempotency)]}`
  return `${name}: ${methods} ${host}${match.path} -> ${upstream.origin}, ${what}`
}

const SIGNING: Readonly<Record<Signing, string>> = {
  refused: '',
  verified: ', signatures verified',
  'by-key-id': ', signatures not verified (by-key-id)'
}

function modeLine ({ drop, inbox, inboxFor }: IdempotencyPolicy): string {
  if (drop !== null) return 'drop'
  if (inbox === null) return 'guarded'
  return inboxFor === 'all' ? 'inbox' : 'guarded, inbox for those who ask'
}

function scopeLine ({ scope }: IdempotencyPolicy): string {
  if (scope.kind === 'parts') {
    return scope.parts.map((part) => part.kind !== 'const' ? partText(part) : part.value === SHARED ? SHARED : 'const').join(' + ')
  }
  return scope.anonymous ? 'public' : 'credential'
}
