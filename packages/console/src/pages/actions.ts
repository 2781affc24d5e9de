/** The names that forms offer. */
export { ACTIONS, PERMISSIONS } from '@eaas/protocol'
