import type { AnyModel } from '@eaas/sdk/adapter'
import type { Model, ModelStatic, Sequelize } from 'sequelize'

export function sealTables(sequelize: Sequelize, models: readonly [ModelStatic<Model>, AnyModel][]): void
