// What is known of a variable while a point is resolved.

export const UNREAD = 0;
export const KNOWN = 1;
export const MISSING = 2;
export const FAILED = 3;
export const WALKING = 4;
