// A schedule as a server starts it, without a server: its reports are not measured, and it compares no log with
// another one's alarm or anchor.
import { type Config, readConfig } from '../../../packages/server/src/core/config.js'
import { type Schedule, type ScheduleOptions, startSchedule } from '../../../packages/server/src/schedule.js'
import { ROOT_KEY, type Service } from './service.js'

const ignore = () => undefined

export const UNMEASURED: ScheduleOptions['measures'] = {
  anchored: ignore,
  checkpointsWritten: ignore,
  tablesCompared: ignore,
  custodyCounted: ignore,
  purgeRan: ignore,
  jobRan: ignore,
  purgeLeft: ignore,
  verificationRan: ignore,
  witnessesAsked: ignore,
}

export const UNLOGGED: ScheduleOptions['log'] = { info: ignore, warn: ignore, error: ignore, fatal: ignore }

/** Starts the schedule of a service without verifying any log. `config` replaces single settings. */
export function startScheduleOf(
  { services }: Service,
  { config, ...options }: { config: Partial<Config> } & Partial<Omit<ScheduleOptions, 'config' | 'services'>>,
): Schedule {
  return startSchedule({
    config: { ...readConfig({ EAAS_ROOT_KEY: ROOT_KEY, EAAS_AUDIT_VERIFY_HOURS: '0' }), ...config },
    services,
    sharedAlarms: { compare: async () => [] },
    compareAnchored: async () => [],
    refreshStoreKeys: async () => undefined,
    eraseDestroyed: async () => ({ outcome: 'unchanged', versions: 0 }),
    witnesses: [],
    measures: UNMEASURED,
    log: UNLOGGED,
    ...options,
  })
}
