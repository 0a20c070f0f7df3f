/**
 * Loaded into a gateway before everything else (`NODE_OPTIONS=--import …`). It shifts the wall clock by the milliseconds in the file
 * that MOVED_CLOCK names.
 */
import { readFileSync } from 'node:fs'

const file = process.env['MOVED_CLOCK']
const real = Date.now

if (file !== undefined) Date.now = () => real() + Number(readFileSync(file, 'utf8'))
