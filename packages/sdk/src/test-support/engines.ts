// The synchronous engines, as the SDK makes them.

import { ENGINE_TOOLS, nodeCrypto } from '../engines/engine.js'
import { createNobleEngine } from '../engines/noble.js'
import { createNodeEngine } from '../engines/node.js'

const crypto = nodeCrypto()
if (!crypto) throw new Error('these tests need node:crypto')

export const nodeEngine = createNodeEngine(crypto, ENGINE_TOOLS)
export const nobleEngine = createNobleEngine(ENGINE_TOOLS)
