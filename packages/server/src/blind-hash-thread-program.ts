/** The program of the thread that evaluates blind hashes: `operate/cli/start.ts` starts it. */
import { type BlindHashTask, runBlindHash } from './core/crypto/blind-hash.js'
import { serveTasks } from './core/event-loop.js'

serveTasks((task: BlindHashTask) => runBlindHash(task))
