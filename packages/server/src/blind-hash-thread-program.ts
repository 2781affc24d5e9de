/** The program of the thread that evaluates blind hashes: `operate/cli/start.ts` starts it. */
import { type BlindHashTask, runBlindHash } from './core/crypto/blind-hash.js'
import { serveTasks } from './core/task-thread.js'

serveTasks((task: BlindHashTask) => runBlindHash(task))
