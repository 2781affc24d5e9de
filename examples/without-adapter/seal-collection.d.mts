import type { AnyModel } from '@eaas/sdk/adapter'
import type { Model } from 'mongoose'

export function sealCollection<T>(documents: Model<T>, model: AnyModel): void
