/** The commands of `eaas`, in the order of its help. */
import { addAccept } from './accept.js'
import { addApiKey } from './api-key.js'
import { addAudit } from './audit.js'
import { addBackup } from './backup.js'
import { addConfig } from './config.js'
import { addConsole } from './console.js'
import { addDev } from './dev.js'
import { addDoctor } from './doctor.js'
import { addKey } from './key.js'
import { addMigrate } from './migrate.js'
import { addMoveToPostgres } from './move-to-postgres.js'
import { addOperatorKey } from './operator-key.js'
import { addPurge } from './purge.js'
import { addRecoveryKit } from './recovery-kit.js'
import { addRestore } from './restore.js'
import { addRootKey } from './root-key.js'
import { addStart } from './start.js'
import { addStoreKey } from './store-key.js'
import { addTenant } from './tenant.js'

export const COMMANDS = [
  addStart,
  addDev,
  addMigrate,
  addDoctor,
  addConfig,
  addRootKey,
  addStoreKey,
  addTenant,
  addApiKey,
  addOperatorKey,
  addKey,
  addConsole,
  addRecoveryKit,
  addBackup,
  addRestore,
  addMoveToPostgres,
  addAudit,
  addAccept,
  addPurge,
]
