/** Reads a curl command as the request that it would send. It reads no file, asks for no password and sends nothing. */
import type { PastedRequest } from './asked.ts'
import { bytesOf, fieldOf } from './paste-http.ts'
import { PasteError } from './paste-error.ts'
import { shellWords } from './shell-words.ts'

/** What the options before have said. */
interface Command {
  method: string | null
  url: string | null
  /** As Node hands them over. */
  readonly headers: Array<[name: string, value: string]>
  /** Lower-case names of fields that curl would not send. */
  readonly removed: Set<string>
  readonly data: string[]
  user: string | null
  readonly cookies: string[]
}

type Option = (command: Command, value: string, name: string) => void

const WITH_VALUE: ReadonlyMap<string, Option> = new Map<string, Option>([
  ...each(['-X', '--request'], (command, value) => { command.method = value }),
  ...each(['-H', '--header'], addField),
  ...each(['-d', '--data', '--data-ascii', '--data-binary'], (command, value, name) => {
    if (value.startsWith('@')) throw namesFile(name)
    command.data.push(value)
  }),
  ...each(['--data-raw'], (command, value) => { command.data.push(value) }),
  ...each(['-u', '--user'], (command, value) => { command.user = value }),
  ...each(['-b', '--cookie'], (command, value, name) => {
    if (!value.includes('=')) throw namesFile(name)
    command.cookies.push(value)
  }),
  ...each(['-A', '--user-agent'], (command, value) => { command.headers.push(fieldOf(`User-Agent: ${value}`)) }),
  ...each(['-e', '--referer'], (command, value) => { command.headers.push(fieldOf(`Referer: ${value}`)) }),
  ...each(['--url'], setUrl),
  // They say how the answer is waited for and shown.
  ...each(['-m', '--max-time', '--connect-timeout', '-o', '--output', '-w', '--write-out'], () => {})
])

/** Options without a value that change nothing of the request that is compared. */
const WITHOUT_VALUE: ReadonlySet<string> = new Set([
  '-s', '--silent', '-S', '--show-error', '-k', '--insecure', '-i', '--include', '-v', '--verbose', '-L', '--location', '-f', '--fail',
  '--compressed', '--http1.1', '--http2', '--no-progress-meter', '-g', '--globoff', '-N', '--no-buffer'
])

function each (names: readonly string[], option: Option): Array<[string, Option]> {
  return names.map((name) => [name, option])
}

/** @throws PasteError */
export function readCurl (text: string): PastedRequest {
  const words = shellWords(text.trim().replace(/^\$ /, ''))
  const command: Command = { method: null, url: null, headers: [], removed: new Set(), data: [], user: null, cookies: [] }
  for (let at = 1; at < words.length;) at = read(command, words, at)
  return requestOf(command)
}

/** Returns where the next option begins. */
function read (command: Command, words: readonly string[], at: number): number {
  const word = words[at] ?? ''
  if (!word.startsWith('-') || word === '-') {
    setUrl(command, word)
    return at + 1
  }
  if (word.startsWith('--')) return readNamed(command, words, at, word, null)
  // Short options may stand together, and the value of the last one may follow without a blank.
  for (let letter = 1; letter < word.length; letter++) {
    const name = `-${word.charAt(letter)}`
    if (WITH_VALUE.has(name)) return readNamed(command, words, at, name, letter + 1 < word.length ? word.slice(letter + 1) : null)
    if (!WITHOUT_VALUE.has(name)) throw unknownOption(name)
  }
  return at + 1
}

function readNamed (command: Command, words: readonly string[], at: number, name: string, attached: string | null): number {
  const option = WITH_VALUE.get(name)
  if (option === undefined) {
    if (!WITHOUT_VALUE.has(name)) throw unknownOption(name)
    return at + 1
  }
  const value = attached ?? words[at + 1]
  if (value === undefined) throw new PasteError(`The option ${name} has no value.`)
  option(command, value, name)
  return attached === null ? at + 2 : at + 1
}

function namesFile (option: string): PasteError {
  return new PasteError(`The option ${option} names a file, and no file is read here. Write its content out.`)
}

/** A longer one is not repeated. */
const NAME_SHOWN_MAX = 40

function unknownOption (name: string): PasteError {
  return new PasteError(`The curl option ${name.slice(0, NAME_SHOWN_MAX)} is not understood here. Leave it out if it does not change the request.`)
}

function setUrl (command: Command, value: string): void {
  if (command.url !== null) throw new PasteError('The command names more than one URL.')
  command.url = value
}

/** `Name:` removes the field that curl would add, and `Name;` sends an empty one. */
function addField (command: Command, value: string): void {
  if (value.startsWith('@')) throw namesFile('-H')
  const empty = /^([^:]*);\s*$/.exec(value)
  const [name, text] = fieldOf(empty === null ? value : `${empty[1] ?? ''}:`)
  if (text === '' && empty === null) command.removed.add(name.toLowerCase())
  else command.headers.push([name, text])
}

// ---------------------------------------------------------------- the request

const METHOD = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

function requestOf (command: Command): PastedRequest {
  const { host, target, user: userOfUrl } = addressOf(command.url)
  const method = command.method ?? (command.data.length === 0 ? 'GET' : 'POST')
  if (!METHOD.test(method)) throw new PasteError('The method of the command is no method.')
  const headers = command.headers.slice()
  const add = (name: string, value: string): void => {
    const lower = name.toLowerCase()
    if (!command.removed.has(lower) && !headers.some(([own]) => own.toLowerCase() === lower)) headers.push(fieldOf(`${name}: ${value}`))
  }
  add('Host', host)
  const user = command.user ?? userOfUrl
  if (user !== null) add('Authorization', `Basic ${Buffer.from(withPassword(user)).toString('base64')}`)
  if (command.cookies.length > 0) add('Cookie', command.cookies.join('; '))
  if (command.data.length > 0) add('Content-Type', 'application/x-www-form-urlencoded')
  const isTyped = command.data.length === 0 || command.headers.some(([name]) => name.toLowerCase() === 'content-type')
  return {
    method,
    target,
    host: bytesOf(host),
    headers: headers.flat(),
    body: Buffer.from(command.data.join('&')),
    notes: isTyped ? [] : ['The command names no Content-Type. curl sends application/x-www-form-urlencoded.']
  }
}

function withPassword (user: string): string {
  if (!user.includes(':')) throw new PasteError('The command names a user without a password, for which curl would ask. Write it out.')
  return user
}

interface Address { readonly host: string, readonly target: string, readonly user: string | null }

const SCHEME = /^https?:\/\//i
const OTHER_SCHEME = /^[a-z][a-z0-9+.-]*:\/\//i
const ADDRESS = /^([^/?#]+)([^#]*)/
// eslint-disable-next-line no-control-regex -- these are what is refused
const NOT_IN_A_URL = /[\x00-\x20\x7f]/
/** curl removes these segments before it sends the path. */
const DOTS = /\/\.{1,2}(?:\/|\?|$)/

function addressOf (url: string | null): Address {
  if (url === null) throw new PasteError('The command has no URL.')
  const bare = url.replace(SCHEME, '')
  const [, authority, rest = ''] = ADDRESS.exec(bare) ?? []
  if (authority === undefined || OTHER_SCHEME.test(bare) || NOT_IN_A_URL.test(url)) {
    throw new PasteError('The URL of the command is no http or https URL.')
  }
  if (DOTS.test(rest.split('?', 1)[0] ?? '')) {
    throw new PasteError('The path has a segment of dots, which curl removes. Write the path as it is sent.')
  }
  const at = authority.lastIndexOf('@')
  return {
    host: authority.slice(at + 1),
    target: bytesOf(rest.startsWith('/') ? rest : `/${rest}`),
    user: at === -1 ? null : unescapedUser(authority.slice(0, at))
  }
}

function unescapedUser (user: string): string {
  try {
    return decodeURIComponent(user)
  } catch {
    throw new PasteError('The user in the URL of the command is not percent-encoded UTF-8.')
  }
}
