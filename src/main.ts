#!/usr/bin/env node
/** argv -> one command. Nothing else. */
import { run } from './cli/run.ts'

process.exitCode = await run(process.argv.slice(2), {
  env: process.env,
  out: (line) => { process.stdout.write(`${line}\n`) },
  err: (line) => { process.stderr.write(`${line}\n`) }
})
