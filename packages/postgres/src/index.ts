/** The database driver. Bundles and test runs with the plugin of patch.ts get it with the changes in `patches`. */
export { default } from 'postgres'
