/**
 * The states of a key. key-states.ts says what each allows; web pages download this list with the answers,
 * and not that table.
 */
export const KEY_STATUSES = ['active', 'disabled', 'pending_destruction', 'destroyed'] as const
