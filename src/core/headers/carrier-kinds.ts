/** What a carrier is, and the words for its kinds that code compares with. Its tables are carriers-*.ts. */

/**
 * stable: the same on every retry of one caller. All that are present make the scope together.
 * rotating: may differ between two retries. It never joins the scope, and alone it names no caller.
 * selector: chooses the account or tenant that a request is for. It counts if it is present.
 */
export type CarrierClass = 'stable' | 'rotating' | 'selector'

/** A kind in a few words, for the documents and for problems. Then the field's name in lower case, with `-`. */
export type CarrierRow = readonly [what: string, name: string]

/** A scheme and a credential (authorization.ts). */
export const CREDENTIAL = 'credential'
/** A caller that a proxy has authenticated. If there is none, a proxy may send the field empty. */
export const PROXY_USER = 'user named by a proxy'
export const CLIENT_CERTIFICATE = 'client certificate'
export const SIGNATURE = 'signature'
export const COOKIE = 'cookie'
