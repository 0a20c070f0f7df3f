import { load } from './src/config/load.ts'
import { printConfig } from './src/config/print.ts'
try { const l = load(process.argv[2]!, { env: process.env }); console.log(printConfig(l.effective)); console.dir(l.config, { depth: 8 }) } catch (e) { console.log((e as Error).message) }
