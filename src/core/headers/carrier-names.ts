/**
 * Judges by a header's name whether it names a caller. This applies to names in no table (carriers.ts), and only if a request has no other
 * caller. Such a request is refused with a hint what to configure. Otherwise it could get another caller's answer.
 */
import { carrierOf } from './carriers.ts'
import { plainName } from './fields.ts'
import type { RawHeaders } from '../record/record.ts'
import type { Rules } from '../record/rules.ts'

/** Anywhere in the name: `X-Accesstoken`, `My-Api-Key`. */
const CALLER_PART = /token|secret|api-?key|passw|passcode|credential|session|jwt|assertion|signature|hmac|auth(?!or(?!i[sz]))|bearer/
/** Words between dashes. */
const CALLER_WORD = /(?:^|-)(?:user|userid|username|uid|member|caller|email|account|accountid|tenant|tenantid|principal|login|identity|subject|sub|actor|guest|visitor|cert|certificate|dn|cn|signed|sign|sig|otp|ticket)(?:-|$)/
/** `X-Acme-Key`, but not `X-Key-Version`; `X-Device-Id`, but not `X-Device-Type`. */
const CALLER_END = /(?:^|-)(?:key|(?:device|installation|anonymous)-?id)$/

/**
 * Fields of HTTP itself, browsers, traces, hops and this protocol, and names that contain a caller word by chance. A CSRF token belongs to
 * a page, not to a caller.
 */
const NOT_A_CARRIER = new RegExp([
  '^(?:sec|accept|content|if|access-control|x-b3|x-datadog|x-envoy|x-vercel|fastly|x-stainless|ce|onceway|repeatability|x-amz-server-side-encryption)-',
  'idempotency-',
  'user-?agent',
  'csrf|xsrf',
  '^(?:www-authenticate|authentication-info|proxy-authenticate|proxy-authentication-info|upgrade-insecure-requests|lock-token|postman-token|x-requested-with)$',
  '(?:^|-)(?:surrogate|cache|routing|partition|ordering|message)-key$'
].join('|'))

/** `plain`: in lower case, with `-`. */
export function looksLikeCarrier (plain: string): boolean {
  return (CALLER_PART.test(plain) || CALLER_WORD.test(plain) || CALLER_END.test(plain)) && !NOT_A_CARRIER.test(plain)
}

/**
 * The first field in no table that looks like a carrier, as it was sent. `own`: fields with a meaning of their own on this route, in lower
 * case.
 */
export function firstLookAlike (raw: RawHeaders, own: readonly string[]): string | null {
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? ''
    const plain = plainName(name)
    if (carrierOf(plain) === undefined && looksLikeCarrier(plain) && !own.includes(name.toLowerCase())) return name
  }
  return null
}

/** Names that often tell callers apart and often mean something else (`X-Client: ios`). That is too little to refuse a request. */
const MAY_NAME_CALLER = /(?:^|-)(?:customer|client|buyer|seller|vendor|merchant|partner|person|employee|owner|party|player|patient|company|org|organi[sz]ation|team|device)(?:-?id)?$/

/**
 * For a request without a caller: the first field that may name its caller after all, cut, as it was sent. null: there is none. Under rules
 * 1 most carriers do not count.
 */
export function firstUncounted (raw: RawHeaders, rules: Rules, own: readonly string[]): string | null {
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? ''
    const plain = plainName(name)
    const carrier = carrierOf(plain)
    const mayName = carrier === undefined
      ? (MAY_NAME_CALLER.test(plain) || looksLikeCarrier(plain)) && !NOT_A_CARRIER.test(plain)
      : rules === 1 && carrier.class !== 'rotating'
    if (mayName && !own.includes(name.toLowerCase())) return name.slice(0, NAME_CHARS_MAX)
  }
  return null
}

/** The client chose this text, so it is cut. */
const NAME_CHARS_MAX = 64
