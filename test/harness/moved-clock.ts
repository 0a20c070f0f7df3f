/**
 * Loaded into a gateway before everything else (`NODE_OPTIONS=--import …`): its wall clock is as far off as the file
 * says that MOVED_CLOCK names, in milliseconds.
 */
import { readFileSync } from 'node:fs'

const file = process.env['MOVED_CLOCK']
const real = Date.now

if (file !== undefined) Date.now = () => real() + Number(readFileSync(file, 'utf8'))
