/** The results as text for a terminal, and as docs/reports/examples.md. Pure except for versions. */
import { cpus } from 'node:os'
import { versions } from '../../test/harness/versions.ts'
import type { Played } from './example.ts'
import { isRight } from './judge.ts'

export function printed (played: Played): string {
  const { messages, duplicates, lost, twice, seconds, wrong, remarks } = played
  return [
    `${titleOf(played)}: ${messages} messages, ${duplicates} duplicates, ${lost} lost, ${twice} executed twice, ${seconds.toFixed(1)} s: ${isRight(played) ? 'right' : 'WRONG'}`,
    ...wrong.map((what) => `  WRONG ${what}`),
    ...remarks.map((remark) => `  ${remark}`)
  ].join('\n')
}

/** The mode `forward` is not named, because every example has it. */
function titleOf ({ name, mode }: Played): string {
  return mode === 'forward' ? name : `${name}, ${mode}`
}

export function reported (all: readonly Played[], { args, seed }: { readonly args: readonly string[], readonly seed: number }): string {
  return `# Examples

\`npm run examples -- ${args.join(' ')}\`, seed ${seed}, ${new Date().toISOString().slice(0, 10)}: **${all.every(isRight) ? 'nothing lost, nothing executed twice' : 'not right'}**.

${versions().map((line) => `* ${line}`).join('\n')}
* ${cpus().length} cores, with all servers and clients on them

A duplicate is a request to the gateway that is not the first of its message. The gateway's own count gives the number. If gateways die with their
counts, the answers that clients got give it (exactly-once), or what the gateways had counted when they were killed (inbox).

In mode inbox the consumer gets some messages more than once, and does each once: it keeps their \`Onceway-Key\`.

| example | messages | duplicates | lost | executed twice | seconds | |
|---|---|---|---|---|---|---|
${all.map((played) => `| [${titleOf(played)}](../../examples/${played.name}/README.md) | ${played.messages} | ${played.duplicates} | ${played.lost} | ${played.twice} | ${Math.round(played.seconds)} | ${[...played.wrong.map((what) => `**${what}**`), ...played.remarks].join('; ')} |`).join('\n')}
`
}
