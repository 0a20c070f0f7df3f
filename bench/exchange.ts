/** One exchange of the benchmark: about 300 bytes in, about 500 bytes out, and an answer that only its own key can have. */

export const PATH = '/v1/charges'
export const TOKEN = 'of-the-benchmark'
export const STATUS = 201
/** Of a message that was accepted. */
export const ACCEPTED = 202
/** By which an inbox may be told to keep an order; so many groups come in turn. */
export const GROUP_HEADER = 'Customer'
export const GROUPS = 1_000

/** What an order looks like, and the same in every request: what differs is the key. */
export const BODY = JSON.stringify({
  amount: 4200,
  currency: 'EUR',
  customer: 'cus_9s6XKzkNRiz8i3',
  description: 'Two tickets for the evening of the 21st, row 7, seats 14 and 15, to be fetched at the counter',
  metadata: { order: '6735', channel: 'web', campaign: 'autumn' },
  receipt: 'somebody@example.com',
  capture: true,
  statement: 'TICKETS EVENING'
})

const MARK = '\u0000'
const ANSWER = JSON.stringify({
  id: `ch_${MARK}`,
  object: 'charge',
  amount: 4200,
  amountCaptured: 4200,
  amountRefunded: 0,
  balanceTransaction: 'txn_1MiN3gLkdIwHu7ixxapQrznl',
  captured: true,
  created: 1795259521,
  currency: 'eur',
  customer: 'cus_9s6XKzkNRiz8i3',
  description: 'Two tickets for the evening of the 21st, row 7, seats 14 and 15, to be fetched at the counter',
  disputed: false,
  livemode: false,
  outcome: { networkStatus: 'approved_by_network', riskLevel: 'normal', sellerMessage: 'Payment complete.' },
  paid: true,
  status: 'succeeded'
})

/** What stands before and after the key in every answer of the upstream. */
export const [BEFORE_KEY, AFTER_KEY] = ANSWER.split(JSON.stringify(MARK).slice(1, -1)) as [string, string]

export function answerTo (key: string): string {
  return `${BEFORE_KEY}${key}${AFTER_KEY}`
}

/** All keys have one length, so that the load generator finds them in answers by position. */
const DIGITS = 8

export function keyOf (series: string, number: number): string {
  return `${series}-${String(number).padStart(DIGITS, '0')}`
}
