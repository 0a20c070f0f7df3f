/** One server in a container, for machines that have an engine and no binaries. Removed when the test process ends. */
import { spawnSync } from 'node:child_process'
import { atExit } from './exit.ts'

export interface Container {
  stop: () => void
  kill: () => void
  start: () => void
  pause: () => void
  resume: () => void
}

/** `publish`: port of 127.0.0.1 → port in the container. */
export function runContainer (
  image: string,
  publish: readonly [number, number],
  env: readonly string[],
  args: readonly string[]
): Container {
  const [outside, inside] = publish
  const id = docker(
    'run',
    '--detach',
    '--publish',
    `127.0.0.1:${outside}:${inside}`,
    ...env.flatMap((pair) => ['--env', pair]),
    image,
    ...args
  )
  const remove = () => { docker('rm', '--force', '--volumes', id) }
  const forget = atExit(remove)
  return {
    stop () { forget(); remove() },
    kill () { docker('kill', id) },
    start () { docker('start', id) },
    pause () { docker('pause', id) },
    resume () { docker('unpause', id) }
  }
}

function docker (...args: string[]): string {
  const { status, stdout, stderr } = spawnSync('docker', args, { encoding: 'utf8', timeout: 300_000 })
  if (status !== 0) throw new Error(`docker ${args[0]} failed: ${stderr}`)
  return stdout.trim()
}
