/**
 * The matrix of real clients as data: what is played, with whom, and what has to come out. docs/reference/clients.md
 * shows it, the tests hold it.
 */
import type { Need } from '../../harness/needs.ts'

/** What one client meets by itself. */
export const SOLO = ['first', 'lost', 'timeout', 'inFlight', 'long', 'other', 'failed', 'notReady', 'brokenOff', 'halfway'] as const
/** What all clients meet together, since it happens to the gateway. */
export const TOGETHER = ['down', 'drain'] as const
export const COLUMNS = [...SOLO, ...TOGETHER] as const
/** What is played without a gateway too. */
export const BARE = ['lost', 'timeout', 'inFlight', 'failed', 'brokenOff'] as const

export type SoloColumn = typeof SOLO[number]
export type Column = typeof COLUMNS[number]
export type BareColumn = typeof BARE[number]

/** `again`: what the same call gets once more, by the same client, when all is well again. */
export const PLAY: Readonly<Record<Column, { readonly title: string, readonly what: string, readonly again: string }>> = {
  first: { title: 'first', what: 'Nothing goes wrong.', again: '201' },
  lost: {
    title: 'answer lost',
    what: 'The connection breaks after the gateway has answered and before the client has the answer.',
    again: '201'
  },
  timeout: { title: 'timeout', what: 'The timeout of the client (1 s here) ends while the API is still working.', again: '201' },
  inFlight: {
    title: 'in flight',
    what: 'A duplicate arrives while the first request is in flight. The first one ends within 3 s (`inFlight.wait`).',
    again: '201'
  },
  long: {
    title: 'in flight for longer',
    what: 'The same, but the first request runs for longer than 3 s. The gateway then answers the duplicate with 409 and `Retry-After`.',
    again: '201'
  },
  other: { title: 'other body', what: 'The key was used before, with another body.', again: '201' },
  failed: { title: '500', what: 'The API executes the request and answers 500.', again: '500' },
  notReady: {
    title: '503',
    what: 'The API executes nothing and answers 503 with `Retry-After: 1`. At the next try it is ready.',
    again: '201'
  },
  brokenOff: {
    title: 'breaks off',
    what: 'The API executes the request and closes the connection without an answer.',
    again: '502 outcome-unknown'
  },
  halfway: {
    title: 'breaks off halfway',
    what: 'The API executes the request and closes the connection in the middle of its answer.',
    again: '502 outcome-unknown'
  },
  down: { title: 'database down', what: 'The database of the gateway is killed and stays down while the client retries.', again: '201' },
  drain: {
    title: 'draining',
    what: 'The gateway gets SIGTERM while the request is in flight. The next call goes to the gateway that replaces it.',
    again: '201'
  }
}

/** `[how often the API did it, what the caller ends with]` */
export type Outcome = readonly [executed: number, ending: string]

/** What a client ends with that retries whatever a retry can help. */
const BEST: Readonly<Record<Column, Outcome>> = {
  first: [1, '201'],
  lost: [1, '201'],
  timeout: [1, '201'],
  inFlight: [1, '201'],
  long: [1, '201'],
  other: [1, '422 key-reused'],
  failed: [1, '500'],
  notReady: [1, '201'],
  brokenOff: [1, '502 outcome-unknown'],
  halfway: [1, '502 outcome-unknown'],
  down: [0, '503 store-unavailable'],
  drain: [1, '201']
}

/** What becomes of one that retries whatever a retry can help, without a gateway. */
const BARE_RETRIED: Readonly<Record<BareColumn, Outcome>> = {
  lost: [2, '201'],
  timeout: [2, '201'],
  inFlight: [2, '201'],
  failed: [1, '500'],
  brokenOff: [2, '201']
}

export interface Row {
  readonly id: string
  readonly title: string
  /** The lines of docs/guides/clients.md that it needs beyond a key; null: none. */
  readonly lines: string | null
  readonly needs: readonly Need[]
  readonly cells: Readonly<Record<Column, Outcome>>
  readonly bare: Readonly<Record<BareColumn, Outcome>>
  /** Where the same call later is shown otherwise than to all others. */
  readonly again: Partial<Readonly<Record<Column, string>>>
}

type Given = Pick<Row, 'id' | 'title'> & {
  readonly lines?: string
  readonly needs?: readonly Need[]
  readonly cells?: Partial<Row['cells']>
  readonly bare?: Partial<Row['bare']>
  readonly again?: Row['again']
}

const row = ({
  id,
  title,
  lines = null,
  needs = [],
  cells,
  bare,
  again = {}
}: Omit<Given, 'lines'> & { readonly lines?: string | null }): Row =>
  ({ id, title, lines, needs, cells: { ...BEST, ...cells }, bare: { ...BARE_RETRIED, ...bare }, again })

/** SDKs of this family send again after a 500, too. */
const sdk = (id: string, title: string): Row => row({ id, title, bare: { failed: [3, '500'] } })

/** Of what a retry could help, it retries nothing. */
const once = (lost: string, timeout: string): Pick<Given, 'cells' | 'bare'> => {
  const [lostHere, timedOut]: readonly [Outcome, Outcome] = [[1, `no answer: ${lost}`], [1, `no answer: ${timeout}`]]
  return {
    cells: { lost: lostHere, timeout: timedOut, long: [1, '409 in-flight'], notReady: [0, '503'] },
    bare: { lost: lostHere, timeout: timedOut, brokenOff: lostHere }
  }
}

export const ROWS: readonly Row[] = [
  sdk('stripe', '`stripe` (npm)'),
  sdk('openai', '`openai` (npm)'),
  sdk('anthropic', '`@anthropic-ai/sdk` (npm)'),
  row({
    id: 'axios',
    title: '`axios` + `axios-retry`',
    cells: { timeout: [1, 'no answer: AxiosError ECONNABORTED'], long: [1, '409 in-flight'], notReady: [0, '503'] },
    bare: { timeout: [1, 'no answer: AxiosError ECONNABORTED'] }
  }),
  row({ id: 'axiosTuned', title: 'the same, with options', lines: 'axios' }),
  row({ id: 'got', title: '`got`', ...once('RequestError ECONNRESET', 'TimeoutError ETIMEDOUT') }),
  row({ id: 'gotTuned', title: '`got`, with options', lines: 'got' }),
  row({ id: 'ky', title: '`ky`', ...once('NetworkError UND_ERR_SOCKET', 'TimeoutError') }),
  row({ id: 'kyTuned', title: '`ky`, with options', lines: 'ky' }),
  row(agentOnce()),
  row({ id: 'agentTuned', title: '`RetryAgent`, with options', lines: 'undici' }),
  row({
    id: 'fetch',
    title: '`fetch-retry`',
    cells: { timeout: [1, 'no answer: TimeoutError'], long: [1, '409 in-flight'], notReady: [0, '503'] },
    bare: { timeout: [1, 'no answer: TimeoutError'] }
  }),
  row({ id: 'fetchTuned', title: '`fetch-retry`, with options', lines: 'fetch-retry' }),
  row({ id: 'requests', title: '`requests` (Python)', needs: ['python3-requests'], ...once('ConnectionError', 'ReadTimeout') }),
  row({ id: 'requestsTuned', title: '`requests` with `Retry`', lines: 'requests', needs: ['python3-requests'] }),
  row({ id: 'httpx', title: '`httpx` (Python)', needs: ['python3-httpx'], ...once('RemoteProtocolError', 'ReadTimeout') }),
  row({
    id: 'curl',
    title: '`curl --retry 3`',
    needs: ['curl'],
    cells: { lost: [1, 'no answer: curl 52'], long: [1, '409 in-flight'] },
    bare: { lost: [1, 'no answer: curl 52'], failed: [4, '500'], brokenOff: [1, 'no answer: curl 52'] }
  }),
  row({ id: 'curlTuned', title: '`curl`, with options', lines: 'curl', needs: ['curl'], bare: { failed: [4, '500'] } })
]

/** It throws away the bodies of the statuses that it would retry, also where it does not retry: the status is left, and the headers. */
function agentOnce (): Given {
  const { cells, bare } = once('SocketError UND_ERR_SOCKET', 'HeadersTimeoutError UND_ERR_HEADERS_TIMEOUT')
  return {
    id: 'agent',
    title: '`RetryAgent` (undici)',
    cells: { ...cells, brokenOff: [1, '502'], halfway: [1, '502'], down: [0, '503'] },
    bare: bare ?? {},
    again: { brokenOff: '502', halfway: '502' }
  }
}

/**
 * `answer`: the API's one answer. `told`: an error that is true: not done, or not known. `wrong`: it gives up where the
 * answer could be had, on a request that runs.
 */
export type Verdict = 'answer' | 'told' | 'wrong'

const TOLD: ReadonlySet<string> = new Set(['422 key-reused', '502 outcome-unknown', '502', '503 store-unavailable'])

export function verdictOf ([executed, ending]: Outcome): Verdict {
  if (ending === '201' || ending === '500') return 'answer'
  if (TOLD.has(ending) || ending.startsWith('no answer: ') || (ending === '503' && executed === 0)) return 'told'
  return 'wrong'
}

/** Why cells of a column are wrong: what such a client does without a gateway. */
export const WHY_WRONG: Partial<Readonly<Record<Column, string>>> = {
  long: 'By default these clients do not retry a 409, so they end with it. Without a gateway, the duplicate is executed a second time (see below). To get the one answer, use the options of the row below, if there is one. A larger `inFlight.wait` on the route helps too, and so does the same call later.'
}
