/** What both proxies say for a cell that does not answer. */

/** Seconds. The client's next attempt goes to the same cell. */
export const RETRY_AFTER_S = 5
/** A gateway of the same network accepts in a few milliseconds. */
export const CONNECT_WITHIN_S = 2

/** Without quotation marks or dollar signs, which the proxies would read. */
export const CELL_DOWN = JSON.stringify({
  type: 'urn:onceway:problem:cell-down',
  title: 'The cell of this request does not answer',
  status: 503,
  detail: 'Send the request again later, with the same key. It goes to no other cell.',
  code: 'cell-down'
})
