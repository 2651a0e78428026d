declare const __RECONCILE_VERSION__: string | undefined;

/** The package's version; `0.0.0-dev` when the sources run without the build. */
export const version: string = typeof __RECONCILE_VERSION__ === 'string' ? __RECONCILE_VERSION__ : '0.0.0-dev';
