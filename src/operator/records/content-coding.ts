/** Whether a body is what its Content-Encoding says. A client that decodes it would fail, with each retry again. */
import { brotliDecompressSync, gunzipSync, inflateRawSync, inflateSync, zstdDecompressSync } from 'node:zlib'
import { headerLines } from '../../core/headers/lines.ts'
import type { RawHeaders } from '../../core/record/record.ts'

type Decode = (bytes: Buffer, bounds: { readonly maxOutputLength: number }) => Buffer

/** RFC 9110 8.4.1. "deflate" is the zlib format, but some servers send the stream alone. */
const DECODERS: Readonly<Record<string, readonly Decode[]>> = {
  gzip: [gunzipSync],
  'x-gzip': [gunzipSync],
  deflate: [inflateSync, inflateRawSync],
  br: [brotliDecompressSync],
  zstd: [zstdDecompressSync]
}

/** Some ten milliseconds. What is larger is taken for what it says, as far as it was read. */
const DECODED_BYTES_MAX = 4 * 1024 * 1024

/** A sentence. null: it is, or nobody here can tell. */
export function codingMistake (lines: RawHeaders, body: Buffer): string | null {
  const codings = headerLines(lines, 'content-encoding').join(',').split(',').map((coding) => coding.trim().toLowerCase()).filter(Boolean)
  let bytes: Buffer | null = body
  for (const coding of codings.toReversed()) {
    if (coding === 'identity') continue
    const decoders = DECODERS[coding]
    if (decoders === undefined || bytes === null || bytes.length === 0) return null
    const decoded = decodedBy(decoders, bytes)
    if (decoded === 'mistake') {
      return `The header says Content-Encoding: ${coding}, and the body is not ${coding}. Give the body as it was sent, or leave this header out.`
    }
    bytes = decoded
  }
  return null
}

/** null: it is larger than is read here. */
function decodedBy (decoders: readonly Decode[], bytes: Buffer): Buffer | null | 'mistake' {
  for (const decode of decoders) {
    try {
      return decode(bytes, { maxOutputLength: DECODED_BYTES_MAX })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return null
    }
  }
  return 'mistake'
}
