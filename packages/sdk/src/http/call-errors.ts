/** What the errors of a call say that got no answer: its name, and what to do. */
import type { Call } from './calls.js'

export function nameOf(call: Call): string {
  return `${call.method} /${call.path}`
}

export function hintFor(call: Call): string {
  if (call.repeatable) return 'Check the base URL and the network, then try again.'
  return 'The service may have done it: check before you try again.'
}
