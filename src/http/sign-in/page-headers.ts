/** The header fields of every page for operators. */

/**
 * Scripts, styles and pictures of this host alone, none of them in the page itself, and no frame around it. With `no-referrer` browsers
 * would send `Origin: null` with forms.
 */
export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': [
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'", "font-src 'self'",
    "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"
  ].join('; '),
  'cross-origin-opener-policy': 'same-origin',
  'referrer-policy': 'same-origin',
  'x-content-type-options': 'nosniff'
} as const
