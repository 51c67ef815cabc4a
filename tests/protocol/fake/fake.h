/* A board and a model in the test's memory, which watch what the protocol does with them. */
#ifndef FAKE_H
#define FAKE_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_LEAST_SHARE 1000u

extern uint32_t fake_steps;  /* calls of mct_train since the last reset */
extern uint32_t fake_chosen; /* selections by saved states, ever */

void fake_begin(void);                                   /* power on; flash stays */
void fake_erase_flash(void);                             /* as it leaves the factory */
void fake_receive(const uint8_t *bytes, uint32_t count); /* into the protocol */
void fake_cut_after(int32_t operations); /* the power fails in that flash operation */
void fake_cuts(uint32_t count, const int32_t *operations); /* one after the other; 512 at most */
void fake_leave_no_trace(void);  /* cut writes: the page reads as erased, but its bits are weak */
uint32_t fake_weak_writes(void); /* to such pages, before they were erased */
void fake_refuse_after(int32_t operations); /* the flash reports an error in that one */
int32_t fake_good_operations(void);         /* before it does; -1: it does not */
int32_t fake_operations_left(void);         /* before a cut; -1: none comes */
uint32_t fake_trained(void);                /* calls of mct_train since the last reset */
uint32_t fake_position(void);
uint32_t fake_restarts(void);
uint32_t fake_sent(uint8_t *to, uint32_t space); /* takes what the device has sent */
void fake_read_state(uint8_t *saved);
int32_t fake_train_once(void);
int32_t fake_save(void); /* 1 done, 0 failed, -1 the power failed */
uint32_t fake_saved_bytes(void);
uint32_t fake_most_erased(void);      /* how often the unit was that was erased most */
uint32_t fake_flash(uint32_t offset); /* the byte there */
void fake_flip_flash(uint32_t offset, uint8_t bits);

#endif
