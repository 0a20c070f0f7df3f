/** Operators who show no credential of their own: those that a trusted proxy vouches for, and those on this machine. */
import type { FastifyRequest } from 'fastify'
import type { Config, ProxyAuthConfig } from '../../config/config.ts'
import { isLoopback } from '../../config/networks.ts'
import { headerLines } from '../../core/headers/lines.ts'
import { isOperatorName } from '../../identity/operator-name.ts'
import { roleOf } from '../../identity/oidc-claims.ts'
import { highestRole } from '../../core/operator/roles.ts'
import type { Identity } from '../../core/operator/roles.ts'
import type { PeerTrust } from '../shared/peer.ts'
import type { Refused } from './authenticated.ts'

/** More groups than fit into the headers that Node reads. */
const GROUPS_MAX = 2_000

/** null: nobody vouches for this request. `trust`: of the addresses in `proxy.from`. */
export function proxied (request: FastifyRequest, proxy: ProxyAuthConfig, trust: PeerTrust): Identity | Refused | null {
  if (!trust.forwardedOf(request.raw).trusted) return null
  const lines = (name: string) => headerLines(request.raw.rawHeaders, name)
  const [users, groups] = [lines(proxy.userHeader), lines(proxy.groupsHeader)]
  if (users.length === 0) return null
  const [name] = users.map(utf8)
  // A second value, or a comma, is what a client has sent and the proxy has passed on.
  if (users.length > 1 || groups.length > 1 || !isOperatorName(name) || name.includes(',')) {
    return refused('The proxy must send one name and one line of groups, without control characters.')
  }
  const named = (utf8(groups[0] ?? '') ?? '').split(',').slice(0, GROUPS_MAX).map((group) => group.trim())
  const role = highestRole([roleOf(named, proxy.roles), proxy.role].filter((each) => each !== null))
  return role === null ? refused('Neither you nor any of your groups has a role here.') : { name, via: 'proxy', role }
}

function refused (reason: string): Refused {
  return { kind: 'refused', status: 403, reason }
}

/** Node reads header bytes as latin1. null: they are no UTF-8. */
function utf8 (value: string): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(value, 'latin1'))
  } catch {
    return null
  }
}

const LOOPBACK: Identity = { name: 'loopback', via: 'loopback', role: 'viewer' }

/**
 * Fields that proxies, load balancers and CDNs add. Such a hop on this machine would bring strangers. A tool on this machine sends none of
 * them, so a name that is only like one counts too.
 */
const OF_A_PROXY = new RegExp(`^(?:${[
  'forwarded(?:-.*)?', 'via', 'cdn-loop', 'x-forwarded.*', 'x-original.*', 'x-real-.*', 'x-envoy-.*', 'x-amzn-.*', 'x-amz-cf-.*', 'x-azure-.*',
  'x-arr-.*', 'x-appengine-.*', 'x-cloud-trace-context', 'x-varnish', 'x-proxy.*', 'proxy-.*', 'cf-.*', 'fly-.*', 'fastly-.*', 'akamai-.*',
  'x-akamai-.*', 'x-vercel-.*', 'x-nf-.*', 'tailscale-.*', 'ngrok-.*',
  // True-Client-IP, X-Client-IP, X-Cluster-Client-Ip, DO-Connecting-IP, WL-Proxy-Client-IP, X-Sucuri-ClientIP, X-Remote-Addr
  '(?:.*-)?(?:client|connecting|real|remote|source|peer)-?(?:ip|addr|address|port|host)'
].join('|')})$`, 'i')

/** The read-only view for whoever is on this machine, if there is no other way to sign in. null: it is not for this request. */
export function onLoopback ({ raw }: FastifyRequest, { host, token, auth }: Config['admin']): Identity | null {
  if ([token, auth.tokensFile, auth.oidc, auth.proxy].some((way) => way !== null)) return null
  if (!isLoopback(host) || !isLoopback(raw.socket.remoteAddress ?? '')) return null
  return raw.rawHeaders.some((name, at) => at % 2 === 0 && OF_A_PROXY.test(name)) ? null : LOOPBACK
}
