/** Where a server verifies logs: in a thread, whose program the build puts beside that of the command. */
import { createVerificationThread, type ThreadDatabase, type Verifier } from '../audit/verification-thread.js'

/** Opens the verifier of a server on PostgreSQL. */
export function openVerifier(database: ThreadDatabase): Verifier {
  return createVerificationThread(database, new URL('./verification-thread-program.js', import.meta.url))
}
