#ifndef CGD_CALLBACK_H
#define CGD_CALLBACK_H

#include "cupti.h"

/* What CUPTI calls at the entry and exit of each enabled driver call, on the thread that makes it. */
void on_driver_call(void *user, int domain, uint32_t callback_id, const struct cupti_call *call);

#endif
