/** A secret that lies in a file and may change there while the process runs. The configuration read it at the start (secret-files.ts). */
import { readFileSync } from 'node:fs'

/** @throws Error, in one sentence that names the file */
export function readSecretFile (file: string): string {
  let text: string
  try {
    text = readFileSync(file, 'utf8').replace(/\r?\n$/, '')
  } catch (error) {
    throw new Error(`${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})`, { cause: error })
  }
  if (text === '') throw new Error(`${file} is empty`)
  return text
}
