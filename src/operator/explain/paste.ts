/**
 * Reads a request that an operator pasted: HTTP/1.1 as in a log or from a proxy, or one curl command. It reads no file and runs nothing.
 * Bounded, and linear in the text.
 */
import type { PastedRequest } from './asked.ts'
import { readCurl } from './paste-curl.ts'
import { PasteError } from './paste-error.ts'
import { readHttp } from './paste-http.ts'

/** As large as the largest body that a route takes by default. */
export const PASTED_CHARS_MAX = 1024 * 1024

/** @throws PasteError, and nothing else */
export function parsePastedRequest (text: string): PastedRequest {
  if (text.length > PASTED_CHARS_MAX || Buffer.byteLength(text) > PASTED_CHARS_MAX) {
    throw new PasteError(`The text is larger than ${PASTED_CHARS_MAX} bytes. Leave out a part of it that is not compared.`)
  }
  if (text.trim() === '') throw new PasteError('The text is empty. Paste a request as HTTP/1.1, or a curl command.')
  return CURL.test(text) ? readCurl(text) : readHttp(text)
}

/** A prompt before the command is copied easily. */
const CURL = /^\s*(?:\$ )?curl\s/
